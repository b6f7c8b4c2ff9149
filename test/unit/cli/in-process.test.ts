/**
 * Most tests of commands run them in the test's own process (support/cli.ts). Here the same command lines run both ways, and what
 * scripts see is the same: exit code, stdout and stderr. Runs in one process share nothing and leave nothing behind.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import {
  type CliOptions,
  type CliResult,
  cliEnv,
  makeHome,
  removeHome,
  runCli,
  spawnCli,
} from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  removeHome(home)
  await daemon.stop()
})
const env = cliEnv(daemon, home)
const declared = 'pipes:\n  - pipe_name: declared\n'
const manifest = path.join(home, 'workspace.yaml')
writeFileSync(manifest, declared)
const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
await daemon.createDestination(pipeId, { destination_type: 'destination_pull' })

const cases: { args: string[]; code: number; options?: CliOptions }[] = [
  { args: ['pipes', 'get', 'orders'], code: 0 },
  { args: ['--help'], code: 0 },
  { args: ['serve', '--help'], code: 0 },
  { args: ['lanes', 'rewind', '--help'], code: 0 },
  { args: ['pipes', 'get', 'orders', '-o', 'table'], code: 0 },
  { args: ['diff', '-f', manifest], code: 1 },
  { args: ['diff', '-f', '-'], code: 1, options: { input: declared } },
  { args: ['pipes', 'lst'], code: 2 },
  { args: ['pipes'], code: 2 },
  { args: ['pipes', 'get'], code: 2 },
  { args: ['pipes', 'list', '--none'], code: 2 },
  { args: ['pipes', 'delete', 'orders'], code: 2 },
  { args: ['pipes', 'get', 'none'], code: 3 },
  { args: ['pipes', 'list'], code: 4, options: { env: { PIPECTL_API_KEY: 'ppl1_wrong' } } },
  { args: ['pipes', 'list', '--api-key-stdin'], code: 0, options: { input: `${daemon.apiKey}\n` } },
  { args: ['pipes', 'create', 'orders'], code: 5 },
  { args: ['lanes', 'skip', 'orders/pull', '--yes'], code: 6 },
  { args: ['ingest', 'orders'], code: 6, options: { input: '' } },
  { args: ['ingest', 'orders'], code: 1, options: { input: '{"n": 1' } },
  { args: ['pipes', 'list'], code: 7, options: { env: { PIPECTL_URL: 'http://127.0.0.1:1' } } },
]

/** The second run comes later: tables say how long ago something was, and when a key was last used. */
const withoutTimes = ({ stdout, ...others }: CliResult) => ({
  ...others,
  stdout: stdout
    .replace(/\b(just now|never|\d+ (s|min) ago)/g, 'AGO')
    .replace(/"api_key_last_used_ts":(null|"[^"]*")/g, '"api_key_last_used_ts":null'),
})

t.test('a command ends in this process as it does in one of its own', async (t) => {
  for (const { args, code, options } of cases) {
    const all = { ...options, env: { ...env, ...options?.env } }
    const spawned = await spawnCli(args, all)
    t.equal(spawned.code, code, args.join(' '))
    t.same(withoutTimes(await runCli(args, all)), withoutTimes(spawned), args.join(' '))
  }
})

t.test('runs at the same time have their own environment, streams and exit codes', async (t) => {
  const wrong = { env: { ...env, PIPECTL_API_KEY: 'ppl1_wrong' } }
  const runs = Array.from({ length: 12 }, async (_, index) => {
    const isWrong = index % 3 === 0
    const { code, stdout, stderr } = await runCli(['pipes', 'list', '-o', 'name'], isWrong ? wrong : { env })
    t.equal(code, isWrong ? 4 : 0)
    t.equal(stdout, isWrong ? '' : 'orders\n')
    t.match(stderr, isWrong ? /unauthorized/ : /^$/)
  })
  await Promise.all(runs)
  t.equal(process.exitCode, undefined)
})

t.test('a run leaves no handler behind', async (t) => {
  const counts = () =>
    [process, process.stdin, process.stdout, process.stderr].map((one) =>
      one.eventNames().map((name) => [String(name), one.listenerCount(name)]),
    )
  const before = counts()
  await runCli(['ingest', 'orders'], { env, input: '{"n":1}\n' })
  await runCli(['tail', 'orders', '--sample', '1001'], { env })
  await runCli(['pull', 'orders/pull'], { env })
  t.same(counts(), before)
})
