/** Secrets of HTTP destinations on the real daemon: secret_headers, the URL's own, two signing secrets. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { startHttpSink } from '../support/http-sink.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import { until } from '../support/until.ts'
import {
  checkedApi,
  created,
  databaseDestination,
  errorsIn,
  httpDestination,
  objectStoreDestination,
  secretMark,
} from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main' }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const withConfig = (config: object) => ({ ...httpDestination, destination_config: config })
const secretUrl = `http://me:${secretMark}-user@127.0.0.1:${sink.port}/in?token=${secretMark}-query&page=2`
const shownUrl = `http://[redacted]@127.0.0.1:${sink.port}/in?token=[redacted]&page=[redacted]`

t.test('secret headers and the secrets of a URL are redacted, sealed, and used', async (t) => {
  const config = {
    url: secretUrl,
    secret_headers: { 'X-Token': `${secretMark}-header` },
    headers: { 'X-Open': 'yes' },
  }
  const id = await created(api, base, withConfig(config), 'destination_id')
  const shown = async () => Object((await api('GET', `${base}/${id}`)).body.destination).destination_config
  const redacted = {
    url: shownUrl,
    secret_headers: { 'X-Token': '[redacted]' },
    headers: { 'X-Open': 'yes' },
  }
  t.same(await shown(), redacted)
  const files = readdirSync(daemon.dataDir, { recursive: true, encoding: 'utf8' })
  for (const file of files.filter((name) => /metadata/.test(name))) {
    const bytes = readFileSync(path.join(daemon.dataDir, file), { flag: 'r' }).toString('latin1')
    t.notMatch(bytes, secretMark, `${file} holds no secret in the clear`)
  }

  const patch = (change: object) => api('PATCH', `${base}/${id}`, { destination_config: change })
  t.equal((await patch(await shown())).status, 200, 'what GET shows can be sent back')
  const { status } = await patch({
    url: shownUrl.replace('/in', '/moved'),
    secret_headers: { 'x-token': '', 'X-More': `${secretMark}-more` },
  })
  t.equal(status, 200)
  t.same(await shown(), {
    ...redacted,
    url: shownUrl.replace('/in', '/moved'),
    secret_headers: { 'X-Token': '[redacted]', 'X-More': '[redacted]' },
  })
  await daemon.ingest(pipeId, { n: 1 })
  await until('it is delivered', () => sink.deliveries.length > 0)
  const [delivery] = sink.deliveries
  t.equal(delivery?.path, `/moved?token=${secretMark}-query&page=2`)
  t.match(delivery?.headers, {
    'x-token': `${secretMark}-header`,
    'x-more': `${secretMark}-more`,
    'x-open': 'yes',
    authorization: `Basic ${Buffer.from(`me:${secretMark}-user`).toString('base64')}`,
  })
})

t.test('what cannot be stored is named, without its value', async (t) => {
  const refused = async (config: object) => errorsIn(await api('POST', base, withConfig(config)))
  const url = 'https://example.com/hook'
  const key = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
  const wrong: [object, string][] = [
    [{ url: `${url}?a=[redacted]` }, 'url'],
    [{ url: 'https://me:pw@example.com/', auth_header: 'Bearer x' }, 'url'],
    [{ url: 'https:\\\\example.com\\hook' }, 'url'],
    [{ url, secret_headers: { 'X-A': '[redacted]' } }, 'secret_headers.X-A'],
    [{ url, secret_headers: { 'X-A': 'a\r\nb' } }, 'secret_headers.X-A'],
    [{ url, secret_headers: { Host: 'x' } }, 'secret_headers.Host'],
    [{ url, secret_headers: { 'X-A': '1' }, headers: { 'x-a': '2' } }, 'secret_headers.X-A'],
    [{ url, secret_headers: { 'X-A': '' } }, 'secret_headers.X-A'],
    [{ url, secret_headers: 5 }, 'secret_headers'],
    [{ url, signing_secret: `${key} ${key} ${key}` }, 'signing_secret'],
    [{ url, signing_secret: `${key} other` }, 'signing_secret'],
  ]
  for (const [config, at] of wrong) {
    t.same(Object.keys(await refused(config)), [`destination_config.${at}`], JSON.stringify(config))
  }
  t.equal((await api('POST', base, withConfig({ url, signing_secret: `${key} ${key}` }))).status, 201)
})

t.test('a stored secret does not go to another server: a change of it needs the secrets again', async (t) => {
  const stranger = await startHttpSink()
  t.teardown(() => stranger.stop())
  const id = await created(
    api,
    base,
    withConfig({
      url: secretUrl,
      secret_headers: { 'X-Token': `${secretMark}-header`, 'X-Second': `${secretMark}-second` },
    }),
    'destination_id',
  )
  const elsewhere = `${stranger.url}/mine`
  const wanting = async (change: object) => {
    const patched = errorsIn(await api('PATCH', `${base}/${id}`, { destination_config: change }))
    const body = { destination_id: id, destination_config: change }
    t.same(errorsIn(await api('POST', `${base}/test`, body)), patched, 'a test of it is rejected too')
    return Object.keys(patched)
  }
  const headers = ['secret_headers.X-Token', 'secret_headers.X-Second'].map(
    (at) => `destination_config.${at}`,
  )
  t.same(await wanting({ url: elsewhere }), headers)
  t.same(await wanting({ url: `${elsewhere}?token=[redacted]` }), ['destination_config.url', ...headers])
  t.same(await wanting({ url: elsewhere, secret_headers: { 'x-token': 'mine', 'X-Second': '[redacted]' } }), [
    'destination_config.secret_headers.X-Second',
  ])
  t.same(await wanting({ url: secretUrl.replace('http:', 'https:') }), headers, 'nor with other protection')
  t.equal(stranger.deliveries.length, 0)

  const change = { url: elsewhere, secret_headers: { 'x-token': 'mine', 'X-Second': null } }
  t.equal((await api('PATCH', `${base}/${id}`, { destination_config: change })).status, 200)
  await daemon.ingest(pipeId, { n: 2 })
  await until('it is delivered there', () => stranger.deliveries.length > 0)
  t.match(stranger.deliveries[0]?.headers, { 'x-token': 'mine' })
  t.notOk('x-second' in (stranger.deliveries[0]?.headers ?? {}))
})

t.test('the same for databases and object stores', async (t) => {
  const asked = async (body: { destination_config: object }, change: object) => {
    const id = await created(api, base, body, 'destination_id')
    const answer = await api('PATCH', `${base}/${id}`, { destination_config: change })
    return answer.status === 200 ? [] : Object.keys(errorsIn(answer))
  }
  const password = ['destination_config.password']
  t.same(await asked(databaseDestination, { host: 'db.example' }), password)
  t.same(await asked(databaseDestination, { port: 5433 }), password)
  t.same(await asked(databaseDestination, { dialect: 'mysql' }), password, 'its default port is another')
  t.same(await asked(databaseDestination, { port: '5432', table: 'other' }), [], 'the same server')
  t.same(await asked(databaseDestination, { host: 'db.example', password: `${secretMark}2` }), [])
  const keys = ['secret_key', 'session_token'].map((key) => `destination_config.${key}`)
  t.same(await asked(objectStoreDestination, { endpoint: 'http://127.0.0.1:10' }), keys)
  t.same(await asked(objectStoreDestination, { endpoint: null }), keys)
  t.same(await asked(objectStoreDestination, { endpoint: 'http://127.0.0.1:9/path', bucket: 'b' }), [])
})
