/** Opens the runner of the jobs on personal data. Null: the log is not on this machine, so no job can be requested. */
import type { PipeReplays } from '../ingest/parked/replays.ts'
import { PrivacyRunner } from '../privacy/jobs.ts'
import type { Stores } from './open-stores.ts'
import type { StartContext } from './start-context.ts'

export function openPrivacy(
  { metadata, buffer, delivery, rereads, now, replica }: Stores,
  pipeReplays: PipeReplays,
  { log, shutdown }: StartContext,
): PrivacyRunner | null {
  const { privacy } = metadata
  if (buffer.erasure === null || rereads === null) return null
  const lanes = {
    reread: (pipeId: string) => rereads.reread(pipeId),
    parkedChanged: (destinationId: string) => delivery.parkedChanged(destinationId),
  }
  const runner = new PrivacyRunner(
    {
      ...{ jobs: privacy, store: privacy, log: buffer.erasure, lanes, now },
      withoutReplays: (work) => pipeReplays.withoutReplays(work),
      headSeq: () => buffer.headSeq(),
      hasReplica: replica !== null,
    },
    log,
  )
  shutdown.set('end privacy jobs', () => runner.close())
  runner.start()
  return runner
}
