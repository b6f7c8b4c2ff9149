/** The high-water mark: what it remembers, and that it is made again, with a word, where it is lost. */
import { mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { openHighWater, readHighWater } from '../../../src/log/segments/high-water.ts'
import { openSegmentLog } from '../../../src/log/segments/open-segment-log.ts'
import { message, newPipeId, openAt, specAt, temporaryDirectory } from './open.ts'

const identity = { dataDirId: '018f0000-0000-4000-8000-00000000000d', epoch: 2 }

t.test('it remembers seq, clock, what is kept and whose it is, in a block that never grows', async (t) => {
  const file = path.join(temporaryDirectory(t), 'high-water')
  const mark = openHighWater(file, identity)
  t.equal(mark.loss, 'missing')
  mark.write(7, 1234)
  const { size } = statSync(file)
  mark.raiseOldestKept(5)
  mark.raiseOldestKept(3)
  mark.write(Number.MAX_SAFE_INTEGER, 5678)
  mark.close()
  t.equal(statSync(file).size, size)
  t.ok(size <= 512, 'within a sector')
  const expected = { seq: Number.MAX_SAFE_INTEGER, clockMs: 5678, oldestKeptSeq: 5, identity }
  t.same(readHighWater(file), expected)
  const again = openHighWater(file, identity)
  t.same(again.found, expected)
  again.close()
  const foreign = openHighWater(file, { ...identity, dataDirId: '018f0000-0000-4000-8000-00000000000e' })
  t.equal(foreign.loss, 'of_another_data_directory')
  t.equal(foreign.found.seq, 0)
})

t.test('damaged, cut short, gone or a directory: it is made again, and the log says so', async (t) => {
  const losses: Record<string, (file: string) => void> = {
    damaged: (file) => {
      const block = readFileSync(file)
      block[9]! ^= 1
      writeFileSync(file, block)
    },
    'damaged: short': (file) => truncateSync(file, 7),
    'damaged: empty': (file) => truncateSync(file, 0),
    'damaged: zeros': (file) => writeFileSync(file, Buffer.alloc(80)),
    missing: (file) => rmSync(file),
    not_a_file: (file) => {
      rmSync(file)
      mkdirSync(path.join(file, 'something'), { recursive: true })
    },
  }
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const spec = specAt(root)
  const file = path.join(spec.dir, 'high-water')
  for (const [index, [name, lose]] of Object.entries(losses).entries()) {
    const opened = await openAt(t, root)
    t.equal((await opened.handle.appender.append(message(pipeId, 'x'))).seq, index + 1)
    await opened.close()
    lose(file)
    const said: { msg: string; reason?: string }[] = []
    const log = pino({}, { write: (line) => void said.push(JSON.parse(line)) })
    const segments = openSegmentLog(spec, log)
    t.match(said, [{ msg: 'buffer.high_water_rebuilt', reason: name.split(':')[0] }], name)
    t.equal(segments.headSeq, index + 1)
    segments.close(0)
    t.match(readHighWater(file), { seq: index + 1 })
  }
})
