/**
 * Finds where the messages of a time start in a pipe. Frames state when their first and last message was received, by
 * the clock of the accepting node. Times ascend along a pipe, except for requests that overtake each other and for clock
 * differences.
 */
import { FrameStream, type PullRoom } from './frame-stream.ts'
import { seqOf } from './frames.ts'
import { headOf, storedFrame } from './stored-frame.ts'
import type { StreamClient, StreamMessage } from './stream-client.ts'

/**
 * The tolerance for clock differences and for the delay between acceptance and commit. Nodes warn above a second of
 * clock difference.
 */
export const receivedSlackMs = 60_000

/** Seq of the first message received at `timeMs` or later, of the pipe that `filter` selects; null when there is none. */
export async function firstReceivedFrom(
  client: StreamClient,
  room: PullRoom,
  filter: string,
  timeMs: number,
): Promise<number | null> {
  const sure = await lastReceivedBefore(client, filter, timeMs - receivedSlackMs)
  const stream = new FrameStream(client, room, { filter, afterStreamSeq: sure, headersOnly: true })
  try {
    for (;;) {
      const message = stream.shift() ?? (await stream.next())
      if (message === null) return null
      const head = headOf(message)
      if (head === null || head.lastMs < timeMs) continue
      const seq = await firstInFrame(client, filter, message, timeMs)
      if (seq !== null) return seq
    }
  } finally {
    stream.rest()
  }
}

/** Binary search: a sequence up to which, if times were sorted, all messages were received before `timeMs`. */
export async function lastReceivedBefore(
  client: StreamClient,
  filter: string,
  timeMs: number,
): Promise<number> {
  const { firstSeq, lastSeq } = await client.state()
  let low = Math.max(0, firstSeq - 1)
  let high = lastSeq
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const message = await client.next(filter, middle + 1)
    const head = message && headOf(message)
    if (message !== null && message.streamSeq <= high && (head === null || head.lastMs < timeMs)) {
      low = message.streamSeq
    } else high = middle
  }
  return low
}

async function firstInFrame(
  client: StreamClient,
  filter: string,
  { streamSeq }: StreamMessage,
  timeMs: number,
): Promise<number | null> {
  const message = await client.next(filter, streamSeq)
  if (message?.streamSeq !== streamSeq) return null
  const messages = storedFrame(message)?.messages() ?? []
  const index = messages.findIndex(({ receivedMs }) => receivedMs >= timeMs)
  return index < 0 ? null : seqOf(streamSeq, index)
}
