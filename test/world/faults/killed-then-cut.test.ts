/**
 * A process is killed between the write of a WAL and its sync; the next run finds the message there, and then the power
 * goes. What that run has answered from or shown must still be there: it is synced before anyone sees it.
 */
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { Checker } from '../../support/faults/checker.ts'
import { namePolicies } from '../../support/faults/disk-names.ts'
import { diskBytes, workDirectory } from '../../support/faults/every-step.ts'
import { faultyDisk, soundDisk } from '../../support/faults/library.ts'
import { type Cut, imagesAfter, writeImage } from '../../support/faults/power-cut.ts'
import type { Step } from '../../support/faults/store-program.ts'
import { type Promised, pipes, runProgram } from '../../support/faults/store-run.ts'
import { type Call, readTrace } from '../../support/faults/trace.ts'

/** The third message is written and not synced; with the first comes a sync of the WAL's header. */
const killedAt = {
  at: 4,
  kill: 'before',
  kinds: ['sync', 'datasync'],
  match: '00000000000000000001.db-wal',
} as const
/** So large that nothing is moved out of its WAL meanwhile. */
const settings = { segmentMaxBytes: 1024 * 1024 }
const some = (count: number): Step => ({ do: 'append', count, bytes: 500 })

interface Recorded {
  root: string
  calls: Call[]
  first: Promised
  second: Promised
}

/** `steps`: of the run after the kill. */
async function record(work: string, steps: Step[]): Promise<Recorded> {
  const root = path.join(work, 'root')
  mkdirSync(root, { recursive: true })
  const disk = faultyDisk(root, path.join(work, 'record'), { trace: true, diskBytes })
  disk.plan(killedAt)
  const first = await runProgram({
    ...{ root, settings, env: disk.env },
    steps: [{ do: 'open' }, some(6), { do: 'exit' }],
  })
  disk.plan(null)
  const second = await runProgram({ root, settings, steps, from: 2, env: disk.env })
  return { root: disk.env.FAULTS_ROOT!, calls: readTrace(disk.traceFile), first, second }
}

/** Nothing that is not synced survives the cut at the end. */
async function checkCut(t: Test, work: string, { root, calls, first, second }: Recorded): Promise<void> {
  const cuts = namePolicies.map((names): Cut => ({ before: calls.length, data: 'none', names, seed: 1 }))
  const checker = new Checker(soundDisk(work, diskBytes))
  t.teardown(() => checker.close())
  const acknowledged = [...first.acknowledged, ...second.acknowledged]
  for (const { cut, image } of imagesAfter(calls, root, cuts)) {
    const directory = path.join(work, `cut-${cut.names}`)
    writeImage(image, directory)
    const task = { root: directory, pipes, acknowledged, delivered: {}, checksAllKeys: true }
    t.equal(await checker.check(task), null, `names: ${cut.names}`)
  }
}

function work(t: Test, name: string): string {
  const directory = workDirectory(name)
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

t.test('a repeated request is answered 202 from a message that a power cut no longer takes', async (t) => {
  const directory = work(t, 'retry-ack')
  const recorded = await record(directory, [{ do: 'open' }, some(1), { do: 'exit' }])
  t.same(
    recorded.first.acknowledged.map(({ seq }) => seq),
    [1, 2],
  )
  t.same(
    recorded.second.acknowledged.map(({ seq }) => seq),
    [3],
    'the third was found, not stored again',
  )
  await checkCut(t, directory, recorded)
})

t.test(
  'what lanes may have delivered and saved a cursor for does not vanish behind the cursor',
  async (t) => {
    const directory = work(t, 'cursor-ahead')
    const recorded = await record(directory, [{ do: 'open' }, { do: 'deliver' }, { do: 'exit' }])
    t.equal(recorded.first.acknowledged.length, 2)
    t.equal(recorded.second.delivered[pipes[0]!], 3, 'the third was found')
    const delivered = { seq: 3, pipeId: pipes[0]!, number: 2, key: 'key-2', msgId: '' }
    const second = { ...recorded.second, acknowledged: [delivered] }
    await checkCut(t, directory, { ...recorded, second })
  },
)
