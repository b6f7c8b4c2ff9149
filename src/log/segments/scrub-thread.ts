/** One pass of the scrub, in a thread of its own that ends with it. What it finds goes to the writer through the feed. */
import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { openLog } from '../../platform/log.ts'
import { FeedChannel } from './feed.ts'
import type { ScrubberData } from './protocol.ts'
import { scrub } from './scrub.ts'

async function run({ spec, log: settings }: ScrubberData): Promise<void> {
  const log = openLog(settings, 'buffer-scrub')
  const feed = new FeedChannel(spec.channel)
  const result = await scrub(
    spec.dir,
    ({ firstSeq, generation }, error) =>
      feed.post({ kind: 'segment_damaged', firstSeq, generation, error: String(error) }),
    pause,
  )
  feed.close()
  log.info(result, 'buffer.scrubbed')
}

if (parentPort !== null) await run(workerData as ScrubberData)
