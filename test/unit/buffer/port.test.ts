/** The segments keep the buffer's port, with one segment and with many. */
import t, { type Test } from 'tap'
import { type BufferUnderTest, testBufferPort } from './conformance.ts'
import { KiB, type Overrides, openAt, temporaryDirectory } from './open.ts'

const opener =
  (overrides: Overrides) =>
  async (t: Test): Promise<BufferUnderTest> => {
    const root = temporaryDirectory(t)
    const open = async (): Promise<BufferUnderTest> => {
      const { handle, reader, feed, close } = await openAt(t, root, overrides)
      const reopen = async () => {
        await close()
        return open()
      }
      return { appender: handle.appender, headSeq: () => handle.headSeq(), reader, feed, reopen }
    }
    return open()
  }

t.test('in one segment', async (t) => testBufferPort(t, opener({})))
t.test('in many small segments', async (t) => testBufferPort(t, opener({ segmentMaxBytes: 64 * KiB })))
