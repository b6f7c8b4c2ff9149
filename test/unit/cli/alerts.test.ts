/** `pipectl alerts`, and what `status`, `secrets rotate-key` and `secrets forget` make of alerts, with the real program. */
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { alertEventNames } from '../../../src/contract/alert-words.ts'
import { cliEnv, homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { verifiedSignature } from '../../support/webhook.ts'

const home = makeHome()
t.teardown(() => removeHome(home))
const daemon = await startDaemon()
t.teardown(() => daemon.close())
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const secret = `whsec_${Buffer.alloc(32, 9).toString('base64')}`
const file = (name: string, text: string) => {
  const at = path.join(home, name)
  writeFileSync(at, text)
  return at
}
const cli = (args: string[], env: Record<string, string> = {}) =>
  runCli(args, { env: { ...cliEnv(daemon, home), ...env } })
const get = async () => JSON.parse((await cli(['alerts', 'get', '-o', 'json'])).stdout).alerts

t.test('none are set up', async (t) => {
  t.match(await cli(['alerts', 'get', '-o', 'table']), { code: 0, stdout: /no alerts are set up/ })
  t.match(await cli(['status', '-o', 'table']), { stdout: /not set up/ })
  t.match(await cli(['alerts', 'test']), { code: 3 })
  t.match(await cli(['alerts', 'set']), { code: 2, stderr: /no setting was given/ })
  t.match(await cli(['alerts', 'set', '--format', 'standard']), { code: 2, stderr: /no address yet/ })
})

t.test('set: secrets from files and the environment, never from the command line', async (t) => {
  t.match(await cli(['alerts', 'set', '--url', `${sink.url}/?token=abc`]), { code: 2, stderr: /--url-file/ })
  t.match(await cli(['alerts', 'set', '--url', sink.url, '--format', 'slack']), { code: 2, stderr: /Slack/ })
  t.match(await cli(['alerts', 'set', '--url', sink.url, '--ask-secret']), {
    code: 2,
    stderr: /PIPECTL_ALERTS_SECRET/,
  })
  t.match(await cli(['alerts', 'set', '--url', sink.url, '--events', 'lane.other']), {
    code: 2,
    stderr: /is not an event/,
  })
  t.match(await cli(['alerts', 'set', '--url-file', '/nowhere']), { code: 2, stderr: /cannot be read/ })
  const given = await cli(['alerts', 'set', '--url', sink.url], { PIPECTL_ALERTS_SECRET: secret })
  t.equal(given.code, 0, given.stderr)
  t.match(await get(), { url: sink.url, secret: '[redacted]', format: 'standard' })
  await cli(['alerts', 'set', '--events', 'lane.recovered,lane.stuck'])
  t.match(await get(), { secret: '[redacted]', events: ['lane.stuck', 'lane.recovered'] }, 'the rest stays')
  await cli(['alerts', 'set', '--events', 'all', '--unsigned'])
  t.match(await get(), { secret: null, events: { length: alertEventNames.length } })
  const fromFile = [
    '--secret-file',
    file('secret', `${secret}\n`),
    '--url-file',
    file('url', `${sink.url}/?token=abc\n`),
  ]
  t.equal((await cli(['alerts', 'set', ...fromFile])).code, 0)
  t.match(await get(), { url: `${sink.url}/?token=[redacted]`, secret: '[redacted]' })
})

t.test('test: what came back, and the exit code', async (t) => {
  const sent = await cli(['alerts', 'test', '-o', 'table'])
  t.match(sent, { code: 0, stdout: /responded 200/ })
  t.ok(verifiedSignature(sink.deliveries.at(-1)!, secret))
  sink.respondWith(() => ({ status: 403, body: 'go away' }))
  t.match(await cli(['alerts', 'test', '-o', 'table']), {
    code: 1,
    stdout: /responded 403\. Response: go away/,
  })
  sink.respondWith(() => ({}))
  t.match(await cli(['status', '-o', 'table']), { stdout: /alerts +to http:.*last sent never/ })
})

t.test('doctor says how many workspaces have alerts', async (t) => {
  const { stdout } = await runCli(['doctor', '--data-dir', daemon.dataDir, '-o', 'json'], {
    env: homeEnv(home),
  })
  t.match(stdout, /set up in 1 of 1 workspace/)
})

t.test('rotate-key seals them again; without the key, forget removes them', async (t) => {
  await daemon.stop()
  const offline = (command: string) =>
    runCli(
      ['secrets', command, '--yes', '--data-dir', daemon.dataDir].filter(
        (one) => command === 'forget' || one !== '--yes',
      ),
      {
        env: homeEnv(home),
      },
    )
  const rotated = await offline('rotate-key')
  t.equal(rotated.code, 0, rotated.stderr)
  await daemon.start()
  t.match(await cli(['alerts', 'test']), { code: 0 })
  t.equal(sink.deliveries.at(-1)?.path, '/?token=abc')
  t.ok(verifiedSignature(sink.deliveries.at(-1)!, secret))
  await daemon.stop()
  rmSync(path.join(daemon.dataDir, 'sealing.key'))
  const forgotten = await offline('forget')
  t.match(forgotten, { code: 0, stderr: /removed: default: where its alerts go/ })
  await daemon.start()
  t.equal(await get(), null)
})

t.test('clear', async (t) => {
  await cli(['alerts', 'set', '--url', sink.url])
  t.match(await cli(['alerts', 'clear']), { code: 2 })
  t.equal((await cli(['alerts', 'clear', '--yes'])).code, 0)
  t.equal(await get(), null)
})
