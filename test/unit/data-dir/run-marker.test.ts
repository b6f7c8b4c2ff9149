/** The file that tells a stop from a crash, run by run. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { markRunning } from '../../../src/maintenance/run-marker.ts'

const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-marker-'))
t.teardown(() => rmSync(root, { recursive: true }))
const file = path.join(root, 'running')
const faults: unknown[] = []
const start = (nowMs: number) => markRunning(root, nowMs, (error) => faults.push(error))
t.afterEach(() => rmSync(file, { recursive: true, force: true }))

t.test('after a stop, and the first time, there was no crash', async (t) => {
  const first = start(1)
  t.equal(first.crash, null)
  first.stop()
  t.notOk(existsSync(file))
  t.equal(start(2).crash, null)
})

t.test('a run that did not stop is a crash, told until somebody was told', async (t) => {
  start(1_000)
  const second = start(2_000)
  t.same(second.crash, { startedMs: 1_000 })
  second.stop()
  const third = start(3_000)
  t.same(third.crash, { startedMs: 1_000 }, 'the second told nobody')
  third.settleCrash()
  t.equal(third.crash, null)
  t.same(start(4_000).crash, { startedMs: 3_000 }, 'the third crashed too')
})

t.test('told, then stopped: nothing is left', async (t) => {
  start(1)
  const second = start(2)
  second.settleCrash()
  second.stop()
  t.equal(start(3).crash, null)
})

t.test('what somebody else wrote there, and what cannot be written, harm nothing', async (t) => {
  writeFileSync(file, 'garbage\0')
  const garbled = start(1)
  t.same(garbled.crash, { startedMs: null })
  garbled.settleCrash()
  t.equal(readFileSync(file, 'utf8'), '1970-01-01T00:00:00.001Z\n')
  t.same(faults, [])
  const elsewhere = markRunning(path.join(root, 'nowhere'), 1, (error) => faults.push(error))
  elsewhere.stop()
  t.ok(faults.length > 0, 'it is said')
})
