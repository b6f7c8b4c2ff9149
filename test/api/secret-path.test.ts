/** URLs whose path is the secret (webhooks of Slack, Discord and the like): shown, printed, logged and audited nowhere. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, errorsIn, httpDestination } from './management-client.ts'

const daemon = await sharedDaemon()
const home = makeHome()
const env = cliEnv(daemon, home)
const sink = await startHttpSink()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
  removeHome(home)
})
const api = checkedApi(daemon)
const token = 'p4thT0ken9xYz'
const secretPath = `services/T00000001/${token}`
const url = `${sink.url}/${secretPath}`
const shownUrl = `${sink.url}/[redacted]`
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'chats' }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const body = (config: object, name: string) => ({
  ...httpDestination,
  destination_name: name,
  destination_config: config,
})
const configOf = async (id: string) =>
  Object((await api('GET', `${base}/${id}`)).body.destination).destination_config
const change = (id: string, config: object) => api('PATCH', `${base}/${id}`, { destination_config: config })
const chat = await created(api, base, body({ url, body_format: 'slack' }, 'chat'), 'destination_id')
const hook = await created(api, base, body({ url, secret_path: true }, 'hook'), 'destination_id')

t.test('the path is redacted in responses, and sealed where it is stored', async (t) => {
  for (const id of [chat, hook]) t.equal((await configOf(id)).url, shownUrl)
  for (const place of [base, '/v1/overview', '/v1/pipes', '/v1/audit'])
    t.notMatch((await api('GET', place)).text, token, place)
  t.match((await api('GET', '/v1/overview')).text, shownUrl)
  const files = readdirSync(daemon.dataDir, { recursive: true, encoding: 'utf8' })
  for (const file of files.filter((name) => /metadata/.test(name)))
    t.notMatch(readFileSync(path.join(daemon.dataDir, file)).toString('latin1'), token, file)
  const openUrl = `${sink.url}/was/open`
  const open = await created(
    api,
    base,
    body({ url: openUrl, body_format: 'ndjson' }, 'open'),
    'destination_id',
  )
  t.equal((await configOf(open)).url, openUrl, 'another path is shown')
  t.equal((await change(open, { secret_path: true })).status, 200)
  const [entry] = Object((await api('GET', `/v1/audit?limit=1`)).body.audit)
  t.equal(entry.operation, 'updateDestination')
  t.notMatch(JSON.stringify([entry.before, entry.after]), 'was/open', 'not even as what it was before')
  t.equal((await api('DELETE', `${base}/${open}`)).status, 204)
})

t.test('what is shown may be sent back; the stored path stays, and records go there', async (t) => {
  t.equal((await change(chat, await configOf(chat))).status, 200)
  t.equal((await change(chat, { url: `${shownUrl}?wait=true` })).status, 200)
  t.equal((await configOf(chat)).url, `${shownUrl}?wait=[redacted]`)
  await daemon.ingest(pipeId, { n: 1 })
  const wanted = [`/${secretPath}`, `/${secretPath}?wait=true`]
  await until('both have it', () => sink.deliveries.length === 2)
  t.same(sink.deliveries.map((one) => one.path).sort(), wanted)
  t.equal((await change(chat, { url })).status, 200)
})

t.test('who does not know the path cannot have it shown, or sent to another server', async (t) => {
  const stranger = await startHttpSink()
  t.teardown(() => stranger.stop())
  const refused = async (id: string, config: object) => {
    const errors = errorsIn(await change(id, config))
    const tried = { destination_id: id, destination_config: config }
    t.same(errorsIn(await api('POST', `${base}/test`, tried)), errors)
    return Object.keys(errors)
  }
  const place = ['destination_config.url']
  for (const [id, key] of [
    [chat, 'body_format'],
    [hook, 'secret_path'],
  ] as const) {
    const opened = { [key]: key === 'secret_path' ? false : 'json_array' }
    t.same(await refused(id, opened), place)
    t.same(await refused(id, { [key]: null }), place)
    t.same(await refused(id, { ...opened, url: shownUrl }), place)
    t.same(await refused(id, { ...opened, url: `${shownUrl}?a=b` }), place)
    t.same(await refused(id, { url: `${stranger.url}/[redacted]` }), place)
    t.same(await refused(id, { ...opened, url: `${stranger.url}/[redacted]` }), place)
    t.equal((await configOf(id)).url, shownUrl)
  }
  t.equal(stranger.deliveries.length, 0)
  t.equal((await change(hook, { secret_path: false, url: `${sink.url}/open` })).status, 200)
  t.equal((await configOf(hook)).url, `${sink.url}/open`, 'another path was never a secret')
  t.equal((await change(hook, { secret_path: true, url })).status, 200)
  t.equal((await change(hook, { secret_path: false, url })).status, 200, 'who knows it may')
  t.equal((await change(hook, { secret_path: true })).status, 200)
  t.equal((await change(hook, { url: shownUrl })).status, 200)
})

t.test('a receiver that echoes the path does not bring it into errors or logs', async (t) => {
  sink.respondWith(({ path: asked }) => ({ status: 404, body: `no such hook: ${asked} (${token})` }))
  await daemon.ingest(pipeId, { n: 2 })
  const lastError = async (id: string) =>
    Object((await api('GET', `${base}/${id}`)).body.destination).lane.last_error
  for (const id of [chat, hook]) {
    await until('it failed', async () => (await lastError(id)) !== null)
    t.match(await lastError(id), { code: 'http_404', message: /no such hook: \[redacted\]/ })
    t.notMatch(JSON.stringify(await lastError(id)), token)
    const tried = await api('POST', `${base}/test`, { destination_id: id })
    t.notMatch(tried.text, token)
  }
  sink.respondWith(({ path: asked }) => ({ status: 308, headers: { location: `${asked}/elsewhere` } }))
  for (const id of [chat, hook]) {
    const tried = await api('POST', `${base}/test`, { destination_id: id })
    t.notMatch(tried.text, token)
  }
  sink.respondWith(() => ({}))
  t.notMatch(JSON.stringify(daemon.log), token)
})

t.test('the command line prints it nowhere, and takes it from no flag', async (t) => {
  const commands = [
    ['destinations', 'list', 'chats'],
    ['destinations', 'get', 'chats/chat'],
    ['destinations', 'list', 'chats', '-o', 'json'],
    ['status'],
    ['lanes', 'list'],
    ['audit'],
    ['export'],
    ['doctor', '--data-dir', daemon.dataDir],
  ]
  for (const command of commands) {
    const { stdout, stderr } = await runCli(command, { env })
    t.notMatch(stdout + stderr, token, command.join(' '))
    t.ok(stdout.length > 0, command.join(' '))
  }
  const onFlag = await runCli(
    ['destinations', 'create', 'chats', '--url', url, '--set', 'body_format=slack'],
    { env },
  )
  t.match(onFlag, { code: 2, stderr: /--url: its path is a secret/ })
  t.notMatch(onFlag.stderr, token)
  const update = ['destinations', 'update', 'chats/hook', '--yes']
  t.match(await runCli([...update, '--url', url], { env }), { code: 2, stderr: /its path is a secret/ })
  const given = await runCli([...update, '--secret', 'url'], {
    env: { ...env, PIPECTL_DESTINATION_URL: url },
  })
  t.equal(given.code, 0, given.stderr)
  t.notMatch(given.stdout + given.stderr, token)
})

t.test('export has a variable in its place, and apply keeps what is stored', async (t) => {
  const file = path.join(home, 'pipectl.yaml')
  const run = (command: string[], text: string, more: Record<string, string> = {}) => {
    writeFileSync(file, text)
    return runCli([...command, '-f', file], { env: { ...env, ...more } })
  }
  const exported = await runCli(['export'], { env })
  t.ok(exported.stdout.includes(`url: ${sink.url}/\${CHATS_CHAT_URL_PATH}\n`), exported.stdout)
  t.ok(exported.stdout.includes(`url: ${sink.url}/\${CHATS_HOOK_URL_PATH}\n`))
  t.match(exported.stdout, 'secret_path: true')
  t.match(await run(['apply'], exported.stdout), { code: 0, stdout: '', stderr: /Nothing to change/ })
  const variables = { CHATS_CHAT_URL_PATH: `${secretPath}/new`, CHATS_HOOK_URL_PATH: secretPath }
  const sent = await run(['apply', '--update-secrets'], exported.stdout, variables)
  t.equal(sent.code, 0, sent.stderr)
  t.notMatch(sent.stdout + sent.stderr, token)
  const seen = sink.deliveries.length
  await daemon.ingest(pipeId, { n: 3 })
  await until('the new path is used', () =>
    sink.deliveries.slice(seen).some((one) => one.path === `/${secretPath}/new`),
  )
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the file
  const inWhole = exported.stdout.replace(`${sink.url}/\${CHATS_CHAT_URL_PATH}`, '${CHATS_CHAT}')
  t.match(await run(['diff'], inWhole, { CHATS_CHAT: url }), { code: 0, stdout: '' })
  t.notMatch(JSON.stringify(daemon.log), token)
})
