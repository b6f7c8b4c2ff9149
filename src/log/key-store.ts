/**
 * The port to the idempotency keys of a cluster, in the database that all nodes share. On one machine the buffer stores
 * the keys itself (segments/idempotency.ts).
 *
 *   (free) ── claim ──▶ pending ── settle ──▶ used ── 24 h ──▶ (free)
 *     ▲                   │
 *     └───── release ─────┘
 *
 * A claim is exclusive. It names the frame that will carry the message (`attemptId`) and the position that this frame
 * must take in the stream, so that any node can determine its outcome at any time: jetstream/settlement.ts.
 */
import { createHash } from 'node:crypto'

/**
 * Lifetime of a key (docs/dev/contract.md#idempotency). In a cluster it starts with the claim, by the database's clock;
 * on one machine the buffer's clock counts.
 */
export const keyLifetimeMs = 24 * 3_600_000
/** Length of the stored prefix of a SHA-256 in base64url: 132 bits. */
const hashCharacters = 22

/** An idempotency key, which is unique in its pipe. */
export interface PipeKey {
  pipeId: string
  key: string
}

/** Keys are stored as hashes, so that a key of 255 bytes takes no more space than a short one. */
export function keyHashOf({ pipeId, key }: PipeKey): string {
  return shortHash(`${pipeId}\n${key}`)
}

/** Shortens the `bodyHash` of an `Idempotency` in the same way. */
export function bodyHashOf(bodyHash: string): string {
  return shortHash(bodyHash)
}

function shortHash(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('base64url').slice(0, hashCharacters)
}

/** Identifies the frame of an attempt. If it was stored, it directly follows `afterSeq` on the subject of `chain`. */
export interface Attempt {
  pipeId: string
  /** The chain of one appender, whose frames follow each other without a gap. */
  chain: string
  /** The stream sequence at the end of the chain when the key was claimed. */
  afterSeq: number
  /** Unique. Also the `Nats-Msg-Id` of the frame. */
  attemptId: string
}

/** A claim that has not been made yet. */
export interface NewClaim extends Attempt {
  keyHash: string
  bodyHash: string
  msgId: string
  recordCount: number
}

/** `claimedMs` is by the database's clock. */
export interface PendingClaim extends NewClaim {
  claimedMs: number
}

/** A key whose message is stored. */
export interface UsedKey {
  keyHash: string
  bodyHash: string
  msgId: string
  recordCount: number
  /** The seq in the stream, without the base of the epoch (offset.ts). */
  seq: number
}

/** A claim whose message is stored at `seq`. */
export type SettledClaim = Pick<PendingClaim, 'keyHash' | 'attemptId' | 'claimedMs'> & { seq: number }

export interface FoundKeys {
  used: UsedKey[]
  pending: PendingClaim[]
}

/** Every method rejects when the database cannot be reached; the outcome of a change is then unknown. */
export interface KeyStore {
  /** Returns those of these keys that are used or pending. Free keys are left out. */
  find(keyHashes: readonly string[]): Promise<FoundKeys>
  /**
   * Claims the free keys; all nodes together hold at most one claim per key. Durable when it resolves. `pending` has
   * the new claims and those of other nodes; `used` has the keys that could not be claimed.
   */
  claim(claims: readonly NewClaim[]): Promise<FoundKeys>
  /** Turns these claims into used keys. Ignores claims that no longer exist. */
  settle(claims: readonly SettledClaim[]): Promise<void>
  /** Frees the keys of these claims. */
  release(claims: readonly Pick<PendingClaim, 'keyHash' | 'attemptId'>[]): Promise<void>
  /** Returns claims older than `ms`, oldest first. */
  pendingFor(ms: number, limit: number): Promise<PendingClaim[]>
  /** Returns the attempts of all pending claims. Their frames must not be purged from the stream. */
  attempts(): Promise<Attempt[]>
  /** Adds keys of messages that are imported from elsewhere. */
  add(keys: readonly UsedKey[]): Promise<void>
  /** Deletes expired keys. */
  prune(): Promise<void>
}

/** The methods that an appender calls. */
export type KeyQuestion = 'find' | 'claim' | 'settle' | 'release' | 'pendingFor'
