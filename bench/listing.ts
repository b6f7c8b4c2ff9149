/** How long GET /v1/pipes and one pull take beside a pipe with 1,000,000 pending records; how quick the CLI starts. */
import { execFileSync } from 'node:child_process'
import { binary, cleanEnv, startDaemon } from '../test/support/daemon.ts'
import { blockedDestination, fill } from './backlog.ts'
import { count, table } from './table.ts'

export async function benchListing(): Promise<string> {
  const daemon = await startDaemon()
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    await blockedDestination(daemon, pipeId, { destination_type: 'destination_pull', destination_config: {} })
    await fill(daemon, pipeId, 1_000_000)
    const list = await median(20, async () => void (await daemon.api('GET', '/v1/pipes')))
    const detail = await median(20, async () => void (await daemon.api('GET', `/v1/pipes/${pipeId}`)))
    const env = cleanEnv({ PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey })
    const cli =
      (...args: string[]) =>
      async () =>
        void execFileSync(process.execPath, [binary, ...args], { env })
    return table(
      ['what', 'median ms'],
      [
        [`GET /v1/pipes, ${count(1_000_000)} records pending`, list.toFixed(1)],
        [`GET /v1/pipes/{pipe_id}, ${count(1_000_000)} records pending`, detail.toFixed(1)],
        ['pipectl --version', (await median(9, cli('--version'))).toFixed(0)],
        ['pipectl pipes list', (await median(9, cli('pipes', 'list'))).toFixed(0)],
      ],
    )
  } finally {
    await daemon.close()
  }
}

async function median(runs: number, work: () => Promise<void>): Promise<number> {
  const times: number[] = []
  for (let run = 0; run <= runs; run++) {
    const startedAt = performance.now()
    await work()
    if (run > 0) times.push(performance.now() - startedAt)
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0
}
