/** The CPU of a start and of a command, and memory at rest: each beside an empty Node.js in the same run. */
import { spawn, spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { binary, cleanEnv, startDaemon } from '../test/support/daemon.ts'
import { cpuSeconds, cpuSecondsOfEndedChildren, rssMiB } from './process-stats.ts'
import { median, table } from './table.ts'

const rounds = Number(process.env.BENCH_ROUNDS ?? 5)
const restMs = 5_000

export async function benchStart(): Promise<string> {
  const empty = commandSeconds(['-e', '0'])
  const daemon = await startDaemon()
  try {
    const starts: number[] = []
    for (let round = 0; round < rounds; round++) {
      await daemon.stop()
      await daemon.start()
      starts.push(cpuSeconds(daemon.pid))
    }
    const env = { PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey }
    const command = commandSeconds([binary, 'pipes', 'list'], env)
    await sleep(restMs)
    return table(
      ['start', 'node -e 0', 'pipectl', 'ratio'],
      [
        row('from start to ready, s of CPU', empty, median(starts), 2),
        row('pipes list, s of CPU', empty, command, 2),
        row('resident at rest, MiB', await emptyMiB(), rssMiB(daemon.pid), 0),
      ],
    )
  } finally {
    await daemon.close()
  }
}

function row(name: string, floor: number, value: number, digits: number): string[] {
  return [name, floor.toFixed(digits), value.toFixed(digits), (value / floor).toFixed(1)]
}

/** The mean of several runs: the kernel counts in hundredths of a second. */
function commandSeconds(args: string[], env: Record<string, string> = {}): number {
  const before = cpuSecondsOfEndedChildren()
  for (let round = 0; round < rounds; round++) {
    const { status } = spawnSync(process.execPath, args, { env: cleanEnv(env) })
    if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}`)
  }
  return (cpuSecondsOfEndedChildren() - before) / rounds
}

async function emptyMiB(): Promise<number> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'])
  try {
    await sleep(1_000)
    return rssMiB(child.pid ?? 0)
  } finally {
    child.kill()
  }
}
