/** Who waits for a commit: one feed for all of them, opened again after an open that failed. */
import t from 'tap'
import type { BufferFeed } from '../../../src/log/buffer.ts'
import { Commits } from '../../../src/observe/history/commits.ts'

class Feed implements BufferFeed {
  listeners: ((pipes: [string, number][]) => void)[] = []
  isClosed = false
  onCommitted(listener: (pipes: [string, number][]) => void): void {
    this.listeners.push(listener)
  }
  onErased(): void {}
  onDropped(): void {}
  onReportWanted(): void {}
  reportLowWatermarks(): void {}
  pipeDeleted(): void {}
  close(): void {
    this.isClosed = true
  }
}

t.test('a feed that could not be opened is opened again by the next one who waits', async (t) => {
  const feed = new Feed()
  const answers = [() => Promise.reject(new Error('NATS does not answer')), async () => feed]
  const commits = new Commits(() => answers.shift()!())
  await t.rejects(commits.after('p', 60_000), { message: 'NATS does not answer' })
  const waiting = await commits.after('p', 60_000)
  for (const listener of feed.listeners) listener([['p', 1]])
  t.equal(await waiting.wait(), true)
  commits.end()
  await Promise.resolve()
  t.equal(feed.isClosed, true)
})

t.test('ending after an open that failed rejects nowhere', async (t) => {
  const commits = new Commits(() => Promise.reject(new Error('NATS does not answer')))
  const failing = commits.after('p', 60_000)
  commits.end()
  await t.rejects(failing, { message: 'NATS does not answer' })
})
