/** `pipectl replica check`: the conformance of an object store. */
import { openBucket } from '../replica/bucket.ts'
import { newBucketCounters } from '../replica/bucket-counters.ts'
import { checkConformance, type Finding } from '../replica/conformance.ts'
import { targetName } from '../replica/replica-options.ts'
import { replicaTarget } from '../replica/target.ts'
import type { Settings } from '../settings/settings.ts'
import { inReplicaWords } from './replica-errors.ts'
import { requireReplica } from './verify-replica.ts'

export interface ConformanceReport {
  target: string
  findings: Finding[]
}

const hints = {
  unreachable: 'correct the settings of replica, or the permissions of the bucket: docs/replica.md',
  anotherKey: '',
  damaged: '',
}

/** `url`: another address with the account of the settings. Throws DataDirError, ConfigError. */
export async function checkReplicaStore(
  settings: Settings,
  url: string | null,
  onFinding: (finding: Finding) => void,
): Promise<ConformanceReport> {
  const target =
    url === null ? requireReplica(settings) : replicaTarget(settings, { url, label: 'the address' })
  const counters = newBucketCounters()
  const bucket = openBucket(target, counters)
  try {
    return { target: targetName(target), findings: await checkConformance({ bucket, counters, onFinding }) }
  } catch (error) {
    throw inReplicaWords(error, targetName(target), hints).error
  } finally {
    bucket.close()
  }
}
