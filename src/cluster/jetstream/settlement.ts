/**
 * Determines the outcome of a claim of an idempotency key whose node is silent, and makes it final. Any node can do
 * this, even several at once and while the silent node continues.
 *
 *   chain's subject   … ── afterSeq ── the attempt's frame                          it is stored: the claim is settled
 *                     … ── afterSeq ── void                                         it is not and never will be: the claim is released
 *
 * The server stores the frame of an attempt only if the subject's last message is `afterSeq` and the `Nats-Msg-Id` is
 * new. A void is an empty message with the same id on the same subject. Once it is stored, `afterSeq` is never the last
 * message again, whatever is purged, so a later frame is always rejected. A frame that is being replicated at that
 * moment has the same id, so the one that is applied second is a duplicate. (Servers compare a sequence when the leader
 * takes the message, and an id when the message is applied; `duplicate_window` is far longer than the time in between.)
 *
 * A void has no frame headers, so readers skip it. The frame cannot be purged before its claim is settled
 * (retention.ts).
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Attempt, type KeyStore, keyHashOf, type PendingClaim } from '../../log/key-store.ts'
import { headers } from '../nats/headers.ts'
import { chainSubject, seqOf } from './frames.ts'
import type { Publisher, PublishResult } from './publisher.ts'
import { headOf, storedFrame } from './stored-frame.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'
import { unavailable } from './unavailable.ts'

/** The server compares it within `duplicate_window`. */
export const idHeader = 'Nats-Msg-Id'
const retries = 10
const retryMs = 100

export interface SettlementDeps {
  cluster: string
  publisher: Publisher
  client: StreamClient
  keys: Pick<KeyStore, 'settle' | 'release'>
}

/**
 * `claims` belong to one attempt. Afterwards none of them is pending. Rejects with BufferUnavailableError and errors of
 * the database.
 */
export async function settleClaims(deps: SettlementDeps, claims: readonly PendingClaim[]): Promise<void> {
  const [first] = claims
  if (first === undefined) return
  const frame = await frameOf(deps, first)
  const seqs = frame === null ? new Map<string, number>() : seqsByKey(first.pipeId, frame)
  const stored = claims.flatMap((claim) => {
    const seq = seqs.get(claim.keyHash)
    return seq === undefined ? [] : [{ ...claim, seq }]
  })
  const free = claims.filter(({ keyHash }) => !seqs.has(keyHash))
  if (stored.length > 0) await deps.keys.settle(stored)
  if (free.length > 0) await deps.keys.release(free)
}

/**
 * Seqs by key hash. Empty for a frame that cannot be read: its messages are never delivered, and a repeat stores them
 * again.
 */
function seqsByKey(pipeId: string, frame: StreamMessage): Map<string, number> {
  const messages = storedFrame(frame)?.messages() ?? []
  return new Map(
    messages.flatMap(({ idempotencyKey }, index) =>
      idempotencyKey === null
        ? []
        : [[keyHashOf({ pipeId, key: idempotencyKey }), seqOf(frame.streamSeq, index)]],
    ),
  )
}

/** Null when it is not stored and never will be. */
async function frameOf(deps: SettlementDeps, attempt: Attempt): Promise<StreamMessage | null> {
  // Checked before a void is published: a full stream rejects the void, but a stored frame can still be settled.
  const stored = await storedFrameOf(deps, attempt)
  if (stored !== null) return stored
  const duplicateOf = await publishVoid(deps, attempt)
  return await storedFrameOf(deps, attempt, duplicateOf ?? undefined)
}

/** Null when it is not stored now. `streamSeq` is its position, or that of a void of the same attempt. */
export async function storedFrameOf(
  { cluster, client }: Pick<SettlementDeps, 'cluster' | 'client'>,
  { pipeId, chain, afterSeq, attemptId }: Attempt,
  streamSeq = afterSeq + 1,
): Promise<StreamMessage | null> {
  const found = await client.nextOfLeader(chainSubject({ cluster, pipeId, chain }), streamSeq)
  const isFrame = found !== null && found.headers?.get(idHeader) === attemptId && headOf(found) !== null
  return isFrame ? found : null
}

/** Returns the sequence of which the void is a duplicate; null when the void was stored. */
async function publishVoid(
  { cluster, publisher }: SettlementDeps,
  { pipeId, chain, attemptId }: Attempt,
): Promise<number | null> {
  const subject = chainSubject({ cluster, pipeId, chain })
  const id = headers()
  id.append(idHeader, attemptId)
  for (let attempt = 1; ; attempt += 1) {
    const result = await new Promise<PublishResult>((onResult) =>
      publisher.publish({ subject, data: new Uint8Array(0), headers: id, onResult }),
    )
    if (result.kind === 'stored') return null
    if (result.kind === 'duplicate' && result.streamSeq > 0) return result.streamSeq
    // A message with this id is being stored.
    const isBusy = result.kind === 'duplicate' || (result.kind === 'refused' && busyCodes.has(result.code))
    if (!isBusy || attempt === retries)
      throw unavailable('write_failed', isBusy ? 'an attempt is being stored' : result.description)
    await wait(retryMs)
  }
}

/** Since nats-server 2.11: a message on the same subject or with the same `Nats-Msg-Id` is being stored. */
export const busyCodes: ReadonlySet<number> = new Set([10_164, 10_158])
