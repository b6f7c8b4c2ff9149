import t from 'tap'
import { cliEnv, finished, makeHome, removeHome, startCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)

/** Runs `pipectl ARGS` with nobody reading one of its outputs: this end of the pipe is closed before it writes. */
function withoutReader(of: 'stdout' | 'stderr', ...args: string[]): ReturnType<typeof finished> {
  const child = startCli(args, { env })
  child[of]?.destroy()
  return finished(child)
}

t.test('a reader that goes away ends no command with a stack trace, and changes no exit code', async (t) => {
  await daemon.createPipe({ pipe_name: 'orders' })
  const commands: [string, number][] = [
    ['--help', 0],
    ['destinations create --help', 0],
    ['pipes list', 0],
    ['pipes get none', 3],
    ['config show', 0],
    ['no-such-command', 2],
  ]
  await Promise.all(
    commands.map(async ([args, code]) => {
      const ran = await withoutReader('stdout', ...args.split(' '))
      t.equal(ran.code, code, args)
      t.notMatch(ran.stderr, /EPIPE|node:/, args)
    }),
  )
})

t.test('a reader of what is said to people may go away too', async (t) => {
  t.equal((await withoutReader('stderr', 'pipes', 'get', 'none')).code, 3)
  t.match(await withoutReader('stderr', 'pipes', 'create', 'clicks'), { code: 0, stdout: /pipe_id/ })
})

t.test('pull without a reader stops quietly, and the message is not done', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'pulled' })
  await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  await daemon.ingest(pipeId, { id: 1 })
  const ran = await withoutReader('stdout', 'pull', 'pulled/pull')
  t.match(ran, { code: 141, stderr: '' }, 'as a program that SIGPIPE ended')
  const again = await finished(startCli(['pull', 'pulled/pull'], { env }))
  t.match(again.stdout, /^\{"id":1/)
})
