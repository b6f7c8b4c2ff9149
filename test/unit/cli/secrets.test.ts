import { createHash } from 'node:crypto'
import { existsSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import type { AuditEntry } from '../../../src/contract/audit.ts'
import { homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon, type TestDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const home = makeHome()
const sink = await startHttpSink()
t.teardown(async () => {
  await sink.stop()
  removeHome(home)
})
const secrets = (daemon: TestDaemon, ...args: string[]) =>
  runCli(['secrets', ...args, '--data-dir', daemon.dataDir], { env: homeEnv(home) })

async function daemonWithSecret(): Promise<{ daemon: TestDaemon; pipeId: string; id: string }> {
  const daemon = await startDaemon()
  const pipe_source = { type: 'basic', user: 'ada', secrets: ['pw-1'] }
  const pipeId = await daemon.createPipe({ pipe_name: 'orders', pipe_source })
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url, auth_header: 'Bearer tok-1' },
  })
  return { daemon, pipeId, id }
}
/** The status of a webhook with that password. */
async function hook(daemon: TestDaemon, pipeId: string, password = 'pw-1'): Promise<number> {
  const authorization = `Basic ${Buffer.from(`ada:${password}`).toString('base64')}`
  return (
    await daemon.api('POST', `/v1/hooks/${pipeId}`, { n: 1 }, { key: null, headers: { authorization } })
  ).status
}

/** The entries of that operation, all by one user of the system. */
async function audited(daemon: TestDaemon, operation: string) {
  const { body } = await daemon.api<{ audit: AuditEntry[] }>('GET', `/v1/audit?operation=${operation}`)
  const [first] = body.audit
  return { user: first?.actor.kind === 'local' ? first.actor.name : null, entries: body.audit }
}
const lastAuth = () => sink.deliveries.at(-1)?.headers.authorization

t.test(
  'rotate-key seals every secret again: deliveries go on with it, the old key is worthless',
  async (t) => {
    const { daemon, pipeId } = await daemonWithSecret()
    t.teardown(() => daemon.close())
    const keyFile = path.join(daemon.dataDir, 'sealing.key')
    const oldKey = readFileSync(keyFile, 'utf8')
    const busy = await secrets(daemon, 'rotate-key')
    t.equal(busy.code, 75, 'not while the daemon runs')
    await daemon.stop()
    const rotated = await secrets(daemon, 'rotate-key')
    t.equal(rotated.code, 0, rotated.stderr)
    t.match(rotated.stderr, /secrets of 1 destination with a new key/)
    t.not(readFileSync(keyFile, 'utf8'), oldKey)
    t.equal(statSync(keyFile).mode & 0o777, 0o600)
    t.equal(readFileSync(`${keyFile}.previous`, 'utf8'), oldKey)
    await daemon.start()
    const before = sink.deliveries.length
    await daemon.ingest(pipeId, { a: 1 })
    await until('it is delivered', () => sink.deliveries.length > before)
    t.equal(lastAuth(), 'Bearer tok-1')
    t.equal(await hook(daemon, pipeId), 202, 'the source of webhooks has its secret')
    const { user } = await audited(daemon, 'rotateSealingKey')
    t.equal(user, os.userInfo().username)
    await daemon.stop()

    // A crash after the secrets were sealed and before the new key got its name.
    linkSync(keyFile, `${keyFile}.new`)
    writeFileSync(`${keyFile}.old`, oldKey, { mode: 0o600 })
    rmSync(keyFile)
    linkSync(`${keyFile}.old`, keyFile)
    const finished = await secrets(daemon, 'rotate-key')
    t.equal(finished.code, 0, finished.stderr)
    t.notOk(existsSync(`${keyFile}.new`))
    t.equal((await secrets(daemon, 'forget', '--yes')).code, 6, 'every secret opens')

    writeFileSync(keyFile, Buffer.alloc(32, 7).toString('base64'))
    const wrong = await secrets(daemon, 'rotate-key')
    t.equal(wrong.code, 78)
    t.match(wrong.stderr, /did not encrypt the secrets of/)
  },
)

t.test('forget: without its key the daemon starts again, destinations wait for their secrets', async (t) => {
  const { daemon, pipeId, id } = await daemonWithSecret()
  t.teardown(() => daemon.close())
  const plain = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  await daemon.stop()
  rmSync(path.join(daemon.dataDir, 'sealing.key'))
  t.equal((await secrets(daemon, 'forget')).code, 2, 'it asks')
  t.notOk(existsSync(path.join(daemon.dataDir, 'sealing.key')), 'and has changed nothing')
  const forgot = await secrets(daemon, 'forget', '--yes')
  t.equal(forgot.code, 0, forgot.stderr)
  t.match(forgot.stderr, new RegExp(`blocked: default: orders ${id}, without auth_header`))
  await daemon.start()
  const status = async (which: string) => {
    const { body } = await daemon.api<{
      destination: { destination_status: string; destination_config: object }
    }>('GET', `/v1/pipes/${pipeId}/destinations/${which}`)
    return body.destination
  }
  t.match(await status(id), { destination_status: 'blocked', destination_config: { auth_header: null } })
  t.match(forgot.stderr, /removed: default: the secrets of the source of orders/)
  t.equal(await hook(daemon, pipeId), 401)
  const renewed = { type: 'basic', secrets: ['pw-2'] }
  t.equal((await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_source: renewed })).status, 200)
  t.equal(await hook(daemon, pipeId, 'pw-2'), 202)
  t.match(await status(plain), { destination_status: 'active' }, 'one without secrets goes on')
  const before = sink.deliveries.length
  await daemon.ingest(pipeId, { a: 1 })
  const at = `/v1/pipes/${pipeId}/destinations/${id}`
  await daemon.api('PATCH', at, { destination_config: { auth_header: 'Bearer tok-2' } })
  await daemon.api('PATCH', `${at}/status`, { destination_status: 'active' })
  await until('the backlog is delivered', () => sink.deliveries.length > before)
  t.equal(lastAuth(), 'Bearer tok-2')
  t.match(await audited(daemon, 'forgetSecrets'), {
    entries: [
      { resource_id: pipeId, after: { forgotten: ['pipe_source'] } },
      {
        ...{ resource_id: id, pipe_id: pipeId, address: null },
        after: { destination_status: 'blocked', forgotten: ['auth_header'] },
      },
    ],
  })
})

t.test(
  'forget: nothing goes out under a mask without its salt; the next salt is used from there on',
  async (t) => {
    const { daemon, pipeId } = await daemonWithSecret()
    t.teardown(() => daemon.close())
    const transform = { map: [{ op: 'mask', paths: ['mail'] }], mask_salt: 'the first salt' }
    const id = await daemon.createDestination(pipeId, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: `${sink.url}/masked` },
      destination_name: 'masked',
      transform,
    })
    const got = () =>
      sink.deliveries
        .filter((one) => one.path === '/masked' && one.method === 'POST')
        .flatMap(({ text }) => JSON.parse(text))
    const hash = (salt: string, value: string) => createHash('sha256').update(`${salt}${value}`).digest('hex')
    await daemon.ingest(pipeId, { mail: 'a' })
    await until('it is delivered masked', () => got().length === 1)
    await daemon.stop()
    const keyFile = path.join(daemon.dataDir, 'sealing.key')
    t.equal((await secrets(daemon, 'rotate-key')).code, 0)
    rmSync(keyFile)
    const forgot = await secrets(daemon, 'forget', '--yes')
    t.equal(forgot.code, 0, forgot.stderr)
    t.match(forgot.stderr, new RegExp(`orders ${id}, without transform.mask_salt`))
    const rotated = await secrets(daemon, 'rotate-key')
    t.equal(rotated.code, 0, rotated.stderr)

    await daemon.start()
    const at = `/v1/pipes/${pipeId}/destinations/${id}`
    const shown = async () => Object((await daemon.api('GET', at)).body.destination)
    t.notOk('mask_salt' in (await shown()).transform, 'it is shown as one that is not set')
    await daemon.api('PATCH', `${at}/status`, { destination_status: 'active' })
    await daemon.ingest(pipeId, { mail: 'b' })
    const lane = await until('the lane says why it stands', async () => {
      const { lane } = await shown()
      return lane.last_error === null ? null : lane
    })
    t.match(lane.last_error, {
      class: 'permanent',
      code: 'secret_unreadable',
      message: /transform\.mask_salt/,
    })
    const tried = await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/test`, { destination_id: id })
    t.match(tried, { status: 400, body: { errors: { 'transform.mask_salt': /sent again/ } } })
    const { mask_salt: _, ...unsalted } = transform
    const kept = await daemon.api('PATCH', at, { transform: { ...unsalted, filter: 'true' } })
    t.match(kept, { status: 400, body: { errors: { 'transform.mask_salt': /required by mask/ } } })
    t.equal(got().length, 1, 'and nothing went out meanwhile')
    const set = await runCli(['destinations', 'update', 'orders/masked', '--secret', 'transform.mask_salt'], {
      env: {
        ...homeEnv(home),
        PIPECTL_URL: daemon.url,
        PIPECTL_API_KEY: daemon.apiKey,
        PIPECTL_DESTINATION_MASK_SALT: 'the second salt',
      },
    })
    t.equal(set.code, 0, set.stderr)
    await until('the backlog is delivered', () => got().length === 2)
    t.strictSame(
      got(),
      [{ mail: hash('the first salt', 'a') }, { mail: hash('the second salt', 'b') }].map((one, at) => ({
        ...got()[at],
        ...one,
      })),
    )
  },
)
