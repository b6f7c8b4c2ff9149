/** One pass of the scrub, in a thread of its own. What it finds goes to the writer through the feed. */
import { setTimeout as pause } from 'node:timers/promises'
import { openLog } from '../../platform/log.ts'
import { ThreadHost } from '../../platform/thread-host.ts'
import { FeedChannel } from './feed.ts'
import type { ScrubberData } from './protocol.ts'
import { scrub } from './scrub.ts'

export interface ScrubCalls {
  scrub(): void
}

const host = new ThreadHost<ScrubberData, ScrubCalls>()

host.serve({
  async scrub() {
    const { spec, log: settings } = host.data
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
  },
})
