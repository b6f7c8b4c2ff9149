/** The state of the replica, for overviews, metrics and alerts. */
import type { ReplicaFacts } from '../contract/replica-facts.ts'
import type { MeasuredReplica } from '../observe/metrics/replica-metrics.ts'
import { targetName } from '../replica/replica-options.ts'
import type { Replica } from '../replica/replica-proxy.ts'
import { readVerified, type VerifiedReplica } from '../replica/verified-file.ts'
import { parseReplicaUrl } from '../settings/replica-settings.ts'
import type { Settings } from '../settings/settings.ts'

/** Contains neither the address of the bucket nor its messages: every workspace sees it. */
export async function replicaFacts(settings: Settings, replica: Replica): Promise<ReplicaFacts> {
  const { state, slot, generation, storedThroughMs, snapshotMs, stored, error, use, requestsPerDay } =
    await replica.status()
  return {
    replica_state: state,
    replica_mode: settings['replica.mode'],
    lag_seconds: Math.floor(Math.max(0, Date.now() - storedThroughMs) / 1000),
    slot,
    generation,
    snapshot_ts: isoTime(snapshotMs),
    error_code: error?.code ?? null,
    failing_since_ts: isoTime(error?.sinceMs ?? null),
    requests: use.requests,
    requests_per_day: requestsPerDay,
    sent_bytes: use.sentBytes,
    stored_objects: stored?.objects ?? null,
    stored_bytes: stored?.bytes ?? null,
    verified: verifiedFacts(verifiedOf(settings)),
  }
}

export async function measuredReplica(settings: Settings, replica: Replica): Promise<MeasuredReplica> {
  const { state, storedThroughMs, snapshotMs, stored, use } = await replica.status()
  const verified = verifiedOf(settings)
  const verifiedMs = verified?.result === 'ok' ? verified.checkedMs : null
  return { storedThroughMs, snapshotMs, isFailing: state !== 'ok', ...use, stored, verifiedMs }
}

/** The result of a verification of this replica, and not of one at another address. */
function verifiedOf(settings: Settings): VerifiedReplica | null {
  const { data_dir, 'replica.url': url, 'replica.endpoint': endpoint } = settings
  const verified = readVerified(data_dir)
  if (url === null || verified?.target !== targetName({ ...parseReplicaUrl(url), endpoint })) return null
  return verified
}

function verifiedFacts(verified: VerifiedReplica | null): ReplicaFacts['verified'] {
  if (verified === null) return null
  const { checkedMs, result, slot, throughMs, messages, problems } = verified
  return {
    verified_ts: new Date(checkedMs).toISOString(),
    result,
    slot,
    through_ts: isoTime(throughMs),
    messages,
    problems,
  }
}

function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
