/** The check of the replica's bucket: that it answers, permits what the daemon does, and creates objects conditionally. */
import { ConfigError } from '../platform/config-error.ts'
import { BucketError, openBucket, probeBucket } from '../replica/bucket.ts'
import { targetName } from '../replica/replica-options.ts'
import { replicaTarget } from '../replica/target.ts'
import type { Settings } from '../settings/settings.ts'
import { type Check, checkNamed } from './check.ts'

/** Creates and removes a small object below `probe/`. Empty: there is no replica. */
export async function replicaChecks(settings: Settings): Promise<Check[]> {
  const check = checkNamed('replica')
  try {
    const target = replicaTarget(settings)
    if (target === null) return []
    const bucket = openBucket(target)
    try {
      await probeBucket(bucket)
    } finally {
      bucket.close()
    }
    return [check.ok(`${targetName(target)} answers, and creates objects conditionally`)]
  } catch (error) {
    if (error instanceof ConfigError) return [check.fail(error.message, 'correct the setting')]
    if (!(error instanceof BucketError)) throw error
    const next =
      error.code === 'no_conditional_writes'
        ? 'use another object store: nothing would keep a second writer out'
        : 'correct the settings of replica, or the permissions of the bucket: docs/replica.md'
    return [check.fail(error.message, next)]
  }
}
