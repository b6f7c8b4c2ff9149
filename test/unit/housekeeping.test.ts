/** The state of deleted pipes is removed once the buffer holds nothing of them. */
import t from 'tap'
import { forgetCounts, forgetDeletedPipes } from '../../src/daemon/housekeeping.ts'
import { openDirectory } from '../../src/ingest/directory/directory-cache.ts'
import { IngestTotals, UsageCounter } from '../../src/ingest/usage.ts'
import { message, openAt, temporaryDirectory } from './buffer/open.ts'
import { newPipe, newWorkspace, open } from './metadata/fixture.ts'

t.test(
  'a deleted pipe is remembered for a while, and for as long as the buffer holds messages of it',
  async (t) => {
    const metadata = await open(t)
    const { handle } = await openAt(t, temporaryDirectory(t))
    const workspaceId = await newWorkspace(metadata, 'default')
    const [held, empty, existing] = await Promise.all(
      ['held', 'empty', 'existing'].map((name) => newPipe(metadata, workspaceId, name)),
    )
    await handle.appender.append(message(held!.pipe_id, '{}\n'))
    for (const { pipe_id } of [held!, empty!]) await metadata.pipes.delete({ workspaceId, pipeId: pipe_id })
    const ingestTotals = new IngestTotals()
    const usage = new UsageCounter(new Map())
    const observer = ingestTotals.observe(usage)
    const parts = {
      metadata,
      buffer: handle,
      directory: await openDirectory(metadata.directory),
      usage,
      ingestTotals,
    }
    for (const { pipe_id } of [empty!, existing!])
      observer.accepted(pipe_id, Date.now(), { messages: 1, records: 1, bytes: 1 })
    const both = [held!.pipe_id, empty!.pipe_id].sort()

    forgetCounts(parts)
    await forgetDeletedPipes(parts, Date.now())
    t.strictSame(await metadata.laneSource.deletedPipes(), both, 'an append may still be under way')
    t.strictSame([...ingestTotals.ofPipes(() => true).keys()], [existing!.pipe_id])
    await forgetDeletedPipes(parts, Date.now() + 3_600_000)
    t.strictSame(await metadata.laneSource.deletedPipes(), [held!.pipe_id])
  },
)
