/** The check of the replica's bucket: that it answers, permits what the daemon does, and creates objects conditionally. */
import { ConfigError } from '../platform/config-error.ts'
import { BucketError, openBucket, probeBucket } from '../replica/bucket.ts'
import { newestSlot } from '../replica/chain.ts'
import { targetName } from '../replica/replica-options.ts'
import { replicaKey } from '../replica/sealing.ts'
import { SlotError, type SlotFault } from '../replica/slot.ts'
import { replicaTarget } from '../replica/target.ts'
import type { Settings } from '../settings/settings.ts'
import { type Check, checkNamed } from './check.ts'
import { sealingKeyOf } from './data-dir.ts'

const slotHints: Record<SlotFault, string> = {
  another_key: 'set replica.url to another prefix: see "Rotate the sealing key" in docs/replica.md',
  damaged: 'set replica.url to another prefix: it begins a new replica',
  newer_format: 'use the release of pipectl that wrote the replica, or a newer one',
}

/** Creates and removes a small object below `probe/`. Empty: there is no replica. */
export async function replicaChecks(settings: Settings, env: NodeJS.ProcessEnv): Promise<Check[]> {
  const check = checkNamed('replica')
  try {
    const target = replicaTarget(settings)
    if (target === null) return []
    const bucket = openBucket(target)
    try {
      await probeBucket(bucket)
      const key = await knownKey(settings, env)
      // Another check reports a missing sealing key.
      if (key !== null) await newestSlot(bucket, replicaKey(key))
    } finally {
      bucket.close()
    }
    return [check.ok(`${targetName(target)} answers, and creates objects conditionally`)]
  } catch (error) {
    if (error instanceof ConfigError) return [check.fail(error.message, 'correct the setting')]
    if (error instanceof SlotError) return [check.fail(error.message, slotHints[error.fault])]
    if (!(error instanceof BucketError)) throw error
    const next =
      error.code === 'no_conditional_writes'
        ? 'use another object store: nothing would keep a second writer out'
        : 'correct the settings of replica, or the permissions of the bucket: docs/replica.md'
    return [check.fail(error.message, next)]
  }
}

async function knownKey(settings: Settings, env: NodeJS.ProcessEnv): Promise<Buffer | null> {
  try {
    return await sealingKeyOf(settings, env)
  } catch {
    return null
  }
}
