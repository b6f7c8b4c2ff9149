/**
 * Idempotency keys of a cluster: the port to the database that all nodes share. On one machine the buffer keeps them itself
 * (segments/idempotency.ts).
 *
 *   (free) ── claim ──▶ pending ── settle ──▶ used ── 24 h ──▶ (free)
 *     ▲                   │
 *     └───── release ─────┘
 *
 * A claim is exclusive. It names the frame that will carry the message (`attemptId`) and the place in the stream that this frame must take,
 * so that any node can find out, at any time, what became of it: jetstream/settlement.ts.
 */
import { createHash } from 'node:crypto'

/** How long a key counts (docs/dev/contract.md#idempotency). Here from the claim on, by the database's clock; on one machine by the buffer's. */
export const keyLifetimeMs = 24 * 3_600_000
/** The first characters of a SHA-256 in base64url: 132 bits. */
const hashCharacters = 22

/** Keys are stored by their hash: of 255 bytes they take no more than short ones. */
export function keyHashOf(pipeId: string, key: string): string {
  return shortHash(`${pipeId}\n${key}`)
}

/** Shortens the `bodyHash` of an `Idempotency` in the same way. */
export function bodyHashOf(bodyHash: string): string {
  return shortHash(bodyHash)
}

function shortHash(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('base64url').slice(0, hashCharacters)
}

/** Where the frame of an attempt is, if it was stored: right after `afterSeq` on the subject of `chain`. */
export interface Attempt {
  pipeId: string
  /** Identifies the chain of one appender: one frame after the other. */
  chain: string
  /** The stream's sequence that the chain ended with when the key was claimed. */
  afterSeq: number
  /** Unique; the `Nats-Msg-Id` of its frame. */
  attemptId: string
}

/** A request that wants a key. */
export interface NewClaim extends Attempt {
  keyHash: string
  bodyHash: string
  msgId: string
  recordCount: number
}

/** `claimedMs`: by the database's clock. */
export interface PendingClaim extends NewClaim {
  claimedMs: number
}

/** A key whose message is stored. */
export interface UsedKey {
  keyHash: string
  bodyHash: string
  msgId: string
  recordCount: number
  /** The seq in the stream: without the base of an epoch (offset.ts). */
  seq: number
}

/** A claim of which the message is stored as `seq`. */
export type SettledClaim = Pick<PendingClaim, 'keyHash' | 'attemptId' | 'claimedMs'> & { seq: number }

export interface FoundKeys {
  used: UsedKey[]
  pending: PendingClaim[]
}

/** Every method rejects when the database cannot be reached; whether a change was made is then not known. */
export interface KeyStore {
  /** Returns those of these keys that are used or pending. Free ones are left out. */
  find(keyHashes: readonly string[]): Promise<FoundKeys>
  /**
   * Claims those that are free, each at most once among all nodes. Durable when it resolves. `pending` has the claims made now as well as those
   * of others; `used` has keys of which no claim was made.
   */
  claim(claims: readonly NewClaim[]): Promise<FoundKeys>
  /** These claims become used keys. A claim that is not there (any more) is ignored. */
  settle(claims: readonly SettledClaim[]): Promise<void>
  /** The keys of these claims are free. */
  release(claims: readonly Pick<PendingClaim, 'keyHash' | 'attemptId'>[]): Promise<void>
  /** Claims that are older than this, oldest first. */
  pendingFor(ms: number, limit: number): Promise<PendingClaim[]>
  /** The attempts of all pending claims: their frames, where they are stored, must not be purged. */
  attempts(): Promise<Attempt[]>
  /** Keys of messages that are moved in from elsewhere. */
  add(keys: readonly UsedKey[]): Promise<void>
  /** Drops keys that are too old. */
  prune(): Promise<void>
}

/** The calls of an appender. */
export type KeyQuestion = 'find' | 'claim' | 'settle' | 'release' | 'pendingFor'
