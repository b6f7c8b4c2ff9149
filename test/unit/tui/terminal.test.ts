import { execFile } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { cliEnv, makeHome, removeHome } from '../../support/cli.ts'
import { binary } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { programFile } from '../../support/programs.ts'
import { sharedDaemon } from '../../support/shared-daemon.ts'
import { until } from '../../support/until.ts'

/** A real session: the built program in a real terminal (tmux), typed into and resized. */
const daemon = await sharedDaemon()
const home = makeHome()
const sink = await startHttpSink()
sink.respondWith(() => ({ status: 422 }))
const socket = path.join(home, 'tmux')
const tmux = (...args: string[]) =>
  promisify(execFile)(programFile('tmux'), ['-S', socket, '-f', '/dev/null', ...args])
t.teardown(async () => {
  await tmux('kill-server').catch(() => {})
  await sink.stop()
  await daemon.close()
  removeHome(home)
})

const screen = async () => (await tmux('capture-pane', '-p', '-t', 'top')).stdout
const shows = (what: RegExp) =>
  until(`the terminal shows ${what}`, async () => what.test(await screen())).catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await screen()}`)
  })

t.test('top in a terminal of 80×24: skip, retry, resize without ghosts, quit', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
  const destinationId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/x` },
  })
  await daemon.ingest(pipeId, '{"id":1}')
  await daemon.ingest(pipeId, '{"id":2}')
  const lane = () => daemon.lane(pipeId, destinationId)
  // The key goes by a file of the home, not by the command line. ink draws nothing where it believes to be in CI.
  const script = path.join(home, 'top.sh')
  const settings = Object.entries(cliEnv(daemon, home)).map(([name, value]) => `export ${name}='${value}'`)
  const unset = 'unset CI CONTINUOUS_INTEGRATION $(env | grep -o "^CI_[A-Z_]*")'
  const command = `'${process.execPath}' '${binary}' top`
  writeFileSync(
    script,
    `${unset}\n${settings.join('\n')}\necho before\n${command}\necho "ended $?"\nread wait\n`,
  )
  chmodSync(script, 0o700)
  await tmux('new-session', '-d', '-s', 'top', '-x', '80', '-y', '24', `sh ${script}`)

  await shows(/http-endpoint +■ stuck/)
  await shows(/■ 1 stuck/)
  await tmux('send-keys', '-t', 'top', 'n')
  await shows(/▶ +http-endpoint/)
  await tmux('send-keys', '-t', 'top', 'Home')
  await shows(/▶ +orders/)
  await tmux('send-keys', '-t', 'top', 'End')
  await shows(/▶ +http-endpoint/)
  await tmux('send-keys', '-t', 'top', 's')
  await shows(/Skip\? \[y\/N\]/)
  await tmux('send-keys', '-t', 'top', 'y')
  await shows(/Parked the blocking message/)
  t.equal((await lane()).skipped_messages, 1)

  await until('the next message blocks', async () => (await lane()).blocking_msg_id !== null)
  sink.respondWith(() => ({ status: 200 }))
  await shows(/■ 1 stuck/)
  await tmux('send-keys', '-t', 'top', 'r')
  await until('the retried message is delivered', async () => (await lane()).pending_messages === 0)
  await shows(/ 1 parked +– idle/)

  // The next key takes the notice away, and the line of keys is back.
  await tmux('send-keys', '-t', 'top', 'k')
  await shows(/\? keys/)
  for (const [width, height] of [
    [60, 12],
    [120, 40],
    [40, 8],
    [80, 24],
  ] as const) {
    await tmux('resize-window', '-t', 'top', '-x', String(width), '-y', String(height))
    await until(`the screen is whole at ${width}×${height}`, async () => {
      const lines = (await screen()).split('\n')
      const count = (what: RegExp) => lines.filter((line) => what.test(line)).length
      // A ghost is a second header, heading or key line left over from an earlier frame.
      const single = count(/^pipectl/) === 1 && count(/PIPE \/ LANE/) === 1 && count(/\? keys/) === 1
      return single && lines[0]?.startsWith('pipectl') && lines.every((line) => [...line].length <= width)
    })
  }
  await tmux('send-keys', '-t', 'top', 'q')
  await shows(/before\nended 0/)
  t.notMatch(await screen(), /PIPE \/ LANE/, 'what was there before is back')
})
