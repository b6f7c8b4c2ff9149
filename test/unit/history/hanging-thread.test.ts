/** A look at the buffer that hangs: it fails, and so do those beside it, but no later one. */
import '../buffer/typescript-workers.ts'
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { BufferReadUnavailableError } from '../../../src/log/buffer.ts'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { DamageReports } from '../../../src/log/segments/reader.ts'
import { openHistory } from '../../../src/observe/history/history-proxy.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { until } from '../../support/until.ts'
import { message, newPipeId, openAt, quiet, specAt, temporaryDirectory } from '../buffer/open.ts'

/** Counted 30 times until a look has waited too long. */
const tickMs = 50

/** A buffer with one message, which no writer keeps, and a history that looks at it. */
async function closedBuffer(t: Test) {
  const root = temporaryDirectory(t)
  const { handle, close } = await openAt(t, root)
  const sent = message(newPipeId(), '{"n":1}')
  await handle.appender.append(sent)
  await close()
  const spec = specAt(root)
  const [name] = listSegments(spec.dir)
  const file = segmentFile(spec.dir, name!)
  return { sent, spec, name: name!, file, history: openHistory({ buffer: spec, log: quiet }, tickMs) }
}

t.test(
  'a thread that hangs is replaced, and its looks fail; two of them at most are left behind',
  async (t) => {
    const { sent, file, history } = await closedBuffer(t)
    t.equal((await history.find(sent.msgId))?.msgId, sent.msgId)
    renameSync(file, `${file}.kept`)
    // Who opens it waits in the kernel until it is opened for writing too: as at a disk that does not respond.
    execFileSync('mkfifo', [file])
    const looks = () => Promise.allSettled(Array.from({ length: 32 }, () => history.find(sent.msgId)))
    for (let round = 0; round < 2; round += 1) {
      for (const look of await looks()) {
        if (look.status === 'fulfilled') t.fail('it found something')
        else t.match(look.reason, { name: 'StorageUnavailableError', message: /does not respond/ })
      }
    }
    await t.rejects(history.find(sent.msgId), { message: /the disk does not respond/ })
    // Only possible while somebody waits for it. It stays open: a thread that comes to the file late must not wait for ever.
    const keepOpen = () => {
      const writer = openSync(file, constants.O_WRONLY | constants.O_NONBLOCK)
      t.teardown(() => closeSync(writer))
    }
    t.doesNotThrow(keepOpen, 'the threads hang in the system')
    rmSync(file)
    renameSync(`${file}.kept`, file)
    await until('looks find it again', async () => {
      const found = await history
        .find(sent.msgId)
        .catch((error) => t.ok(error instanceof StorageUnavailableError))
      return typeof found === 'object' && found?.msgId === sent.msgId
    })
    await history.close()
  },
)

t.test('a look that takes too long fails alone', async (t) => {
  const { sent, file, history } = await closedBuffer(t)
  await history.find(sent.msgId)
  // Nobody salvages it.
  writeFileSync(file, Buffer.alloc(64 * 1024, 1))
  await t.rejects(history.positionAt(sent.pipeId, null), {
    name: 'StorageUnavailableError',
    message: /takes too long/,
  })
  t.equal(await history.find(sent.msgId), null, 'the thread is there')
  await history.close()
})

t.test('a damaged segment that is not salvaged is waited for, but not without end', async (t) => {
  const { spec, name } = await closedBuffer(t)
  const reports = new DamageReports(spec, 100)
  await t.rejects(reports.untilChanged(name, new Error('damaged')), BufferReadUnavailableError)
  reports.close()
})
