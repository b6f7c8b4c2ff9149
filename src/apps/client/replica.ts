/** The replica of the service in words: one line, and the rows of a page. Pure. */
import type { ReplicaFacts } from '../../contract/replica-facts.ts'
import { lagAlertSeconds } from '../../contract/replica-words.ts'
import { ago, bytes, count, counted, duration } from '../../platform/quantities.ts'

/** The loss of the machine would lose too much, or nothing can be restored. */
export function isReplicaBehind({ lag_seconds, snapshot_ts }: ReplicaFacts): boolean {
  return lag_seconds > lagAlertSeconds || snapshot_ts === null
}

export function replicaInWords(replica: ReplicaFacts, nowMs: number): string {
  const { snapshot_ts } = replica
  return [
    stateInWords(replica),
    snapshot_ts === null ? 'no snapshot, so nothing can be restored' : `snapshot ${ago(snapshot_ts, nowMs)}`,
    verifiedInWords(replica, nowMs),
  ].join(', ')
}

export function stateInWords({ replica_state, lag_seconds, error_code }: ReplicaFacts): string {
  const behind = `${duration(lag_seconds)} behind`
  if (replica_state === 'ok') return `ok, ${behind}`
  const why = error_code === null ? '' : ` (${error_code})`
  return replica_state === 'failing' ? `failing${why}, ${behind}` : `joining the bucket${why}, ${behind}`
}

export function verifiedInWords({ verified }: ReplicaFacts, nowMs: number): string {
  if (verified === null) return 'never verified'
  const { result, verified_ts, problems } = verified
  const when = ago(verified_ts, nowMs)
  return result === 'ok'
    ? `verified ${when}`
    : `verification failed ${when} (${counted(problems, 'problem')})`
}

/** A label and a text each. */
export function replicaRows(replica: ReplicaFacts, nowMs: number): [string, string][] {
  const { slot, generation, snapshot_ts, stored_objects, stored_bytes, requests_per_day: day } = replica
  const stored =
    stored_objects === null || stored_bytes === null
      ? 'not counted yet'
      : `${bytes(stored_bytes)} in ${counted(stored_objects, 'object')}, at the newest snapshot`
  return [
    ['State', stateInWords(replica)],
    ['Mode', replica.replica_mode],
    ['Newest object', `${count(slot)}, generation ${count(generation)}`],
    ['Newest snapshot', snapshot_ts === null ? 'none: nothing can be restored' : ago(snapshot_ts, nowMs)],
    ['Last verified restore', verifiedInWords(replica, nowMs)],
    ['Stored', stored],
    ['Sent since the start', bytes(replica.sent_bytes)],
    [
      'Requests a day',
      `${count(day.put)} PUT, ${count(day.list)} LIST, ${count(day.get)} GET, ${count(day.remove)} DELETE`,
    ],
  ]
}
