/** Which driver serves a destination: docs/dev/contract.md#destinations, `dialect` and its aliases. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { DeliveryError } from '../../../src/destinations/driver.ts'
import { descriptorOf, openDriver } from '../../../src/destinations/drivers.ts'
import { httpEndpoint } from '../../../src/destinations/http-endpoint/driver.ts'
import { mysql } from '../../../src/destinations/mysql/driver.ts'
import { nats } from '../../../src/destinations/nats/driver.ts'
import { objectStore } from '../../../src/destinations/object-store/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { sqlite } from '../../../src/destinations/sqlite/driver.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { childFlags } from '../../support/child-flags.ts'

const load = (type: Parameters<typeof descriptorOf>[0], config: Record<string, unknown> = {}) =>
  descriptorOf(type).load(makeSpec(type, config))

t.test('destination_type, and for databases dialect or sql_dialect, choose the driver', async (t) => {
  const database = (config: Record<string, unknown>) => load('destination_database', config)
  t.equal(await database({}), postgresql, 'postgresql is the default')
  for (const dialect of ['postgresql', 'postgres', 'pg']) {
    t.equal(await database({ dialect }), postgresql, dialect)
    t.equal(await database({ sql_dialect: dialect }), postgresql, `sql_dialect ${dialect}`)
  }
  for (const dialect of ['mysql', 'mariadb']) {
    t.equal(await database({ dialect }), mysql, dialect)
    t.equal(await database({ sql_dialect: dialect }), mysql, `sql_dialect ${dialect}`)
  }
  t.equal(await load('destination_object_store'), objectStore)
  t.equal(await load('destination_http_endpoint'), httpEndpoint)
  t.equal(await load('destination_nats'), nats)
  t.equal(await load('destination_sqlite', { file: 'a', table: 'b' }), sqlite)
})

t.test('a driver that could not be loaded is loaded again at the next attempt', async (t) => {
  const descriptor = descriptorOf('destination_http_endpoint')
  const failure = Object.assign(new Error('too many open files'), { code: 'EMFILE' })
  const broken = t.intercept(descriptor, 'load', { value: () => Promise.reject(failure) })
  const spec = makeSpec('destination_http_endpoint', { url: 'http://127.0.0.1:1/' })
  const driver = openDriver(spec, openSettings, anyKey)
  const batch = makeBatch([[{ n: 1 }]])
  await t.rejects(driver.deliver(batch, never), failure)
  await t.rejects(driver.deliver(batch, never), failure)
  broken.restore()
  await t.rejects(driver.deliver(batch, never), DeliveryError, 'it was loaded, and nothing listens there')
  await driver.close()
})

t.test('descriptors load no driver and no client library', async (t) => {
  const clients = [/client-s3/, /mysql2/, /node_modules\/pg\//]
  const descriptors = new URL('../../../src/destinations/drivers.ts', import.meta.url)
  const loaded = await loadedBy(descriptors)
  for (const client of clients) t.notMatch(loaded, client)
  const all = await loadedBy(
    descriptors,
    new URL('../../../src/destinations/object-store/driver.ts', import.meta.url),
    new URL('../../../src/destinations/mysql/driver.ts', import.meta.url),
    new URL('../../../src/destinations/postgresql/driver.ts', import.meta.url),
  )
  for (const client of clients) t.match(all, client, 'the list shows what is loaded')
})

/** The CommonJS modules that a process has when it has imported these. */
async function loadedBy(...files: URL[]): Promise<string> {
  const urls = files.map(({ href }) => href)
  const script = `for (const url of ${JSON.stringify(urls)}) await import(url)
    const { createRequire } = await import('node:module')
    console.log(Object.keys(createRequire(${JSON.stringify(urls[0])}).cache).join())`
  const args = [...childFlags, '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return stdout
}
