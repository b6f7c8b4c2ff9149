/** The replica thread: copies log and metadata into the bucket. It reads both from the disk, as other readers do. */
import { openLogRows } from '../../log/segments/replicated-rows.ts'
import { openRowChanges } from '../../metadata/sqlite/row-changes.ts'
import { openLog } from '../../platform/log.ts'
import { dayMs } from '../../platform/quantities.ts'
import { describeFatalErrors } from '../../platform/storage-error.ts'
import { ThreadHost } from '../../platform/thread-calls.ts'
import { version } from '../../platform/version.ts'
import { openBucket } from '../../replica/bucket.ts'
import { newBucketCounters } from '../../replica/bucket-counters.ts'
import { targetName } from '../../replica/replica-options.ts'
import type { ReplicaCalls, ReplicaReports, ReplicaThreadData } from '../../replica/replica-proxy.ts'
import { RequestRate, sampleEveryMs } from '../../replica/request-rate.ts'
import { runReplica } from '../../replica/run-replica.ts'
import { replicaKey } from '../../replica/sealing.ts'
import { openBufferFeed } from '../../stores/open-log.ts'

const host = new ThreadHost<ReplicaThreadData, ReplicaCalls, ReplicaReports>()
const { target, intervalMs, heartbeatMs, isSync, root, metadataFile, buffer, key, log: settings } = host.data
describeFatalErrors('replicating from', root)
const { identity } = buffer
if (identity === undefined) throw new Error('the buffer has no identity')
const rows = openLogRows(buffer.dir, { reusesMemory: true })
const changes = openRowChanges(metadataFile)
const use = newBucketCounters()
const bucket = openBucket(target, use)
const running = runReplica({
  bucket,
  key: replicaKey(Buffer.from(key)),
  rows,
  changes,
  spec: { root, target: targetName(target), identity, recordingId: changes.recordingId, version: version() },
  intervalMs,
  heartbeatMs,
  log: openLog(settings, 'replica'),
  onStored: (seq, moments) => host.tell('stored', [seq, moments]),
  onJoined: () => host.tell('joined', []),
  onRefused: (event, message) => host.tell('refused', [event, message]),
})

const rate = new RequestRate(performance.now())
setInterval(() => rate.sample(performance.now(), use.requests), sampleEveryMs).unref()

const feed = isSync ? await openBufferFeed(buffer) : null
feed?.onCommitted(() => running.wake())

host.serve(
  {
    status() {
      const none = { slot: 0, headSeq: 0, generation: 0, storedThroughMs: 0, snapshotMs: null, stored: null }
      const joining = { ...none, state: 'joining' as const, error: running.joinError() }
      const requestsPerDay = rate.within(dayMs, performance.now(), use.requests)
      return { ...(running.status() ?? joining), use, requestsPerDay }
    },
    wake: () => running.wake(),
    finish: (withinMs) => running.finish(withinMs),
  },
  {
    async onClose() {
      await running.ended
      feed?.close()
      bucket.close()
      rows.close()
      changes.close()
    },
  },
)
// An error that nobody awaits ends the thread; the proxy starts another one.
await running.ended
