/**
 * A database server whose certificate is not verified: the first one's key is pinned, and a server with another key, which
 * somebody on the path would have, is refused before the log-in, also after a restart, until a person resets the pin.
 */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import type { AuditEntry } from '../../src/contract/audit.ts'
import { cliEnv, homeEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { greeting, honestMysql } from '../support/rogue/mysql.ts'
import { honestPostgres } from '../support/rogue/postgresql.ts'
import { type Fault, startRogue } from '../support/rogue/rogue-server.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

interface Shown {
  destination: {
    tls_pin: { sha256: string; first_seen_ts: string } | null
    lane: Record<string, unknown> & { last_error: { code: string; message: string } | null }
  }
}

const [postgres, mariadb] = await Promise.all([startPostgres(), startMariadb({ tls: true })])
const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  await Promise.all([postgres.stop(), mariadb.stop()])
  removeHome(home)
})
const closes: Fault = (socket) => void socket.end()

for (const { name, scheme, dialect, server, rows, session } of [
  {
    ...{ name: 'PostgreSQL', scheme: 'postgres', dialect: 'postgresql', server: postgres },
    rows: () => postgres.query('SELECT v FROM pinned ORDER BY v'),
    session: honestPostgres,
  },
  {
    ...{ name: 'MariaDB', scheme: 'mariadb', dialect: 'mysql', server: mariadb },
    rows: () => mariadb.query('SELECT v FROM pinned ORDER BY v'),
    session: () => ({ ...honestMysql(), greeting: greeting(true) }),
  },
]) {
  t.test(`${name}: first use, another server, restart, reset`, async (t) => {
    await server.query('CREATE TABLE pinned (v int)')
    const rogue = await startRogue(session, 0, closes, { tls: true })
    t.teardown(() => rogue.stop())
    // Who answers behind one address: connections made from now on.
    const target = { host: '127.0.0.1', port: server.port }
    const toRogue = () => Object.assign(target, { port: rogue.port })
    const toServer = () => Object.assign(target, { port: server.port })
    const proxy = await startProxy(target, '127.0.0.2')
    t.teardown(() => proxy.stop())

    const pipeId = await daemon.createPipe({ pipe_name: scheme, pipe_add_ingest_ts: false })
    const base = `/v1/pipes/${pipeId}/destinations`
    const { user: username, password, database } = server
    const destination = {
      destination_type: 'destination_database',
      destination_config: {
        ...{ host: proxy.host, port: proxy.port, username, password, database, dialect },
        table: 'pinned',
      },
    }
    const tried = async (body: object) => {
      const { checks } = (
        await daemon.api<{ checks: { name: string; ok: boolean; message: string }[] }>(
          'POST',
          `${base}/test`,
          body,
        )
      ).body
      return checks.find((check) => check.name === 'certificate')
    }
    const fresh = await tried(destination)
    t.match(fresh, { ok: true })
    const key = /[0-9a-f]{64}/.exec(fresh?.message ?? '')?.[0] ?? ''

    const id = await daemon.createDestination(pipeId, destination)
    const shown = async () => (await daemon.api<Shown>('GET', `${base}/${id}`)).body.destination
    const stored = (count: number) =>
      until(`${count} rows are stored`, async () => (await rows()).length === count)
    const refused = () =>
      until(
        'the server is refused',
        async () => (await shown()).lane.last_error?.code === 'certificate_changed',
      )
    t.equal((await shown()).tls_pin, null, 'a test pins nothing')
    t.match(await tried({ destination_id: id }), { ok: true })
    t.equal((await shown()).tls_pin, null, 'of a stored destination neither')

    await daemon.ingest(pipeId, { v: 1 })
    await stored(1)
    const { tls_pin: pin } = await shown()
    t.equal(pin?.sha256, key, 'the key that the test has shown')

    await daemon.kill()
    toRogue()
    await daemon.start()
    await daemon.ingest(pipeId, { v: 2 })
    await refused()
    t.equal(rogue.heard(), '', 'nothing was sent to the other server')
    const { lane, tls_pin } = await shown()
    t.same(tls_pin, pin)
    t.match(lane, { lane_state: 'retrying', last_error: { class: 'permanent' }, pending_messages: 1 })
    t.match(lane.last_error?.message, new RegExp(`pinned ${key}, now [0-9a-f]{64}\\..* reset the pin`))
    t.match(await tried({ destination_id: id }), { ok: false, message: new RegExp(`pinned ${key}`) })
    t.equal(rogue.heard(), '', 'nor by a test of the stored destination')

    toServer()
    await daemon.api('POST', `${base}/${id}/retry-now`)
    await stored(2)
    t.same((await shown()).tls_pin, pin, 'the pinned server is taken again')

    toRogue()
    const reset = await daemon.api('POST', `${base}/${id}/reset-pin`)
    t.same(reset.body, { reset: true, status: 'reset' })
    t.equal((await shown()).tls_pin, null)
    t.same((await daemon.api('POST', `${base}/${id}/reset-pin`)).body, { reset: false, status: 'no_pin' })
    const { body } = await daemon.api<{ audit: AuditEntry[] }>('GET', '/v1/audit?operation=resetTlsPin')
    const ofThis = body.audit.filter((entry) => entry.resource_id === id)
    t.match(ofThis, [{ actor: { kind: 'key' } }], 'one entry: the second reset changed nothing')
    t.match(ofThis, [{ before: { tls_pin: { sha256: pin?.sha256 } }, after: { tls_pin: null } }])
    await daemon.ingest(pipeId, { v: 3 })
    await until('the next server is taken for the right one', () => rogue.heard().includes(username))
    t.notMatch(rogue.heard(), password, 'and still gets no password in clear')
    t.not((await shown()).tls_pin?.sha256, key)

    toServer()
    await refused()
    const env = cliEnv(daemon, home)
    const shownByCli = await runCli(['destinations', 'get', `${scheme}/database`, '-o', 'table'], { env })
    t.match(shownByCli.stdout, /tls_pin +sha256 [0-9a-f]{64}, since /)
    const unasked = await runCli(['destinations', 'reset-pin', `${scheme}/database`], { env })
    t.not(unasked.code, 0, 'it asks first')
    const byCli = await runCli(['destinations', 'reset-pin', `${scheme}/database`, '--yes'], { env })
    t.match(byCli, { code: 0, stdout: /status +reset/ })
    await stored(3)
    t.equal((await shown()).tls_pin?.sha256, key)

    const elsewhere = { host: proxy.host, port: proxy.port + 1, password }
    await daemon.api('PATCH', `${base}/${id}`, { destination_config: elsewhere })
    t.equal((await shown()).tls_pin, null, 'another server has another key')
  })
}

t.test('a backup holds the pins', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'kept', pipe_add_ingest_ts: false })
  const { port, user: username, password, database } = postgres
  const id = await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: { host: '127.0.0.2', port, username, password, database, table: 'pinned' },
  })
  await daemon.ingest(pipeId, { v: 4 })
  const shown = async () =>
    (await daemon.api<Shown>('GET', `/v1/pipes/${pipeId}/destinations/${id}`)).body.destination.tls_pin
  const pin = await until('it is pinned', shown)
  const [file, dir] = [path.join(home, 'pins.tar.gz'), path.join(home, 'restored')]
  const env = homeEnv(home)
  t.match(await runCli(['backup', file, '--data-dir', daemon.dataDir], { env }), { code: 0 })
  t.match(await runCli(['restore', file, '--data-dir', dir], { env }), { code: 0 })
  const restored = new Database(path.join(dir, 'metadata.db'), { readonly: true })
  t.teardown(() => restored.close())
  const row = restored
    .prepare('SELECT tls_pin_sha256 AS key FROM destinations WHERE destination_id = ?')
    .get(id)
  t.same(row, { key: pin.sha256 })
})
