/**
 * Finds out what became of a claim of an idempotency key whose node is silent, and makes that final. Any node can do it, also several at
 * once and while the silent node continues.
 *
 *   chain's subject   … ── afterSeq ── the attempt's frame                          it was stored: the claim is settled
 *                     … ── afterSeq ── void                                         it was not, and never will be: the claim is released
 *
 * The frame of an attempt demands two things of the server: that the subject still ends with `afterSeq`, and that its `Nats-Msg-Id` is new. A
 * void is an empty message with the same id on the same subject. After it is stored the subject never ends with `afterSeq` again, whatever is
 * purged, so a frame that comes later is refused at any time. A frame that is on its way to the replicas just then is told apart by the id: of the two,
 * the one that is applied second is a duplicate. (Servers compare a sequence when the leader takes the message, and an id when the message is
 * applied; `duplicate_window` is far longer than the time in between.)
 *
 * A void has no head of a frame, so readers pass over it. The frame cannot be purged before its claim is settled (retention.ts).
 */
import { setTimeout as wait } from 'node:timers/promises'
import { type Attempt, type KeyStore, keyHashOf, type PendingClaim } from '../../log/key-store.ts'
import { headers } from '../nats/headers.ts'
import { chainSubject, seqOf } from './frames.ts'
import type { Publisher, PublishResult } from './publisher.ts'
import { headOf, storedFrame } from './stored-frame.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'
import { unavailable } from './unavailable.ts'

/** Compared by the server within `duplicate_window`. */
export const idHeader = 'Nats-Msg-Id'
const retries = 10
const retryMs = 100

export interface SettlementDeps {
  cluster: string
  publisher: Publisher
  client: StreamClient
  keys: Pick<KeyStore, 'settle' | 'release'>
}

/** `claims`: of one attempt. Afterwards none of them is pending. Rejects with BufferUnavailableError and what the database rejects with. */
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

/** By the hash of the key. Of a frame that cannot be read none: its messages are never delivered, and a repeat stores them again. */
function seqsByKey(pipeId: string, frame: StreamMessage): Map<string, number> {
  const messages = storedFrame(frame)?.messages() ?? []
  return new Map(
    messages.flatMap(({ idempotencyKey }, index) =>
      idempotencyKey === null ? [] : [[keyHashOf(pipeId, idempotencyKey), seqOf(frame.streamSeq, index)]],
    ),
  )
}

/** Null: it is not stored, and never will be. */
async function frameOf(deps: SettlementDeps, attempt: Attempt): Promise<StreamMessage | null> {
  // Without a void first: a full stream takes none, and what is stored can be settled all the same.
  const stored = await storedFrameOf(deps, attempt)
  if (stored !== null) return stored
  const duplicateOf = await publishVoid(deps, attempt)
  return await storedFrameOf(deps, attempt, duplicateOf ?? undefined)
}

/** Null: it is not stored now. `streamSeq`: where it is, or a void of the same attempt. */
export async function storedFrameOf(
  { cluster, client }: Pick<SettlementDeps, 'cluster' | 'client'>,
  { pipeId, chain, afterSeq, attemptId }: Attempt,
  streamSeq = afterSeq + 1,
): Promise<StreamMessage | null> {
  const found = await client.nextOfLeader(chainSubject(cluster, pipeId, chain), streamSeq)
  const isFrame = found !== null && found.headers?.get(idHeader) === attemptId && headOf(found) !== null
  return isFrame ? found : null
}

/** Returns what it is a duplicate of; null: it was stored. */
async function publishVoid(
  { cluster, publisher }: SettlementDeps,
  { pipeId, chain, attemptId }: Attempt,
): Promise<number | null> {
  const subject = chainSubject(cluster, pipeId, chain)
  const id = headers()
  id.append(idHeader, attemptId)
  for (let attempt = 1; ; attempt += 1) {
    const result = await new Promise<PublishResult>((onResult) =>
      publisher.publish({ subject, data: new Uint8Array(0), headers: id, onResult }),
    )
    if (result.kind === 'stored') return null
    if (result.kind === 'duplicate' && result.streamSeq > 0) return result.streamSeq
    // One with this id is being stored.
    const isBusy = result.kind === 'duplicate' || (result.kind === 'refused' && busyCodes.has(result.code))
    if (!isBusy || attempt === retries)
      throw unavailable('write_failed', isBusy ? 'an attempt is being stored' : result.description)
    await wait(retryMs)
  }
}

/** From nats-server 2.11 on: on the same subject, or with the same `Nats-Msg-Id`, one is being stored. */
export const busyCodes: ReadonlySet<number> = new Set([10_164, 10_158])
