/** The data directory of a node of a cluster: who sets the cluster up, who joins it, and what prevents it. */
import { copyFileSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { ServersUnreachableError, startWhenReachable } from '../../../src/daemon/start-when-reachable.ts'
import {
  openDataDirMetadata,
  requireDirectory,
  requireWorkspace,
  setUpDataDir,
} from '../../../src/maintenance/data-dir.ts'
import { withLocalUsers } from '../../../src/maintenance/workspaces.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { openLog } from '../../../src/platform/log.ts'
import { loadSettings } from '../../../src/settings/config.ts'
import { startPostgres } from '../../support/postgres.ts'

const postgres = await startPostgres()
t.teardown(() => postgres.stop())
const log = openLog({ level: 'fatal', format: 'json' }, 'test')

function url(database: string, changes: { password?: string; port?: number } = {}): string {
  const { password = postgres.password, port = postgres.port } = changes
  return `postgres://postgres:${password}@127.0.0.1:${port}/${database}`
}

function node(dataDir: string, metadataUrl: string, env: Record<string, string> = {}) {
  const variables = {
    PIPECTL_DATA_DIR: dataDir,
    PIPECTL_METADATA_URL: metadataUrl,
    PIPECTL_BUFFER_NATS: 'nats://127.0.0.1:1',
    ...env,
  }
  return loadSettings({ env: variables }).settings
}

async function failure(work: () => Promise<unknown>): Promise<Error> {
  try {
    await work()
  } catch (error) {
    const { message } = error as Error
    if (message.includes(postgres.password) || /wr0ng|\n/.test(message)) throw new Error(message)
    return error as Error
  }
  throw new Error('it did not fail')
}

const open = (settings: ReturnType<typeof node>) => openDataDirMetadata(settings, {}, { create: false })

t.test('the first node sets the cluster up; the others join it with its sealing key', async (t) => {
  await postgres.query('CREATE DATABASE first')
  const [one, two] = [`${t.testdir()}/one`, `${t.testdir()}/two`]
  const [first, second] = [node(one, url('first')), node(two, url('first'))]

  const early = await failure(() => open(second))
  t.type(early, ConfigError)
  t.match(early.message, /^metadata\.url: the database contains no pipectl data yet; run `pipectl init`/)

  const created = await setUpDataDir(first, {})
  t.match(created, { workspace_name: 'default', api_key: /^ppl1_/, setup_path: /^\// })
  t.notOk(existsSync(path.join(one, 'metadata.db')))
  t.match(await failure(() => setUpDataDir(first, {})), {
    message: 'the cluster pipectl is already set up; nothing was changed',
  })

  requireDirectory(second)
  t.equal(statSync(two).mode & 0o777, 0o700)
  for (const join of [() => open(second), () => setUpDataDir(second, {})]) {
    const missing = await failure(join)
    t.type(missing, ConfigError)
    t.match(missing.message, /sealing\.key does not exist; copy sealing\.key of the first node here/)
  }
  t.notOk(existsSync(path.join(two, 'sealing.key')), 'no key was made that opens nothing')

  copyFileSync(path.join(one, 'sealing.key'), path.join(two, 'sealing.key'))
  const { metadata } = await open(second)
  await requireWorkspace(second, metadata)
  t.equal((await metadata.workspaces.list()).length, 1)
  await metadata.close()
  await withLocalUsers(second, {}, 'default', async (users) => t.same(await users.list(), []))
})

t.test('two nodes that set the cluster up at once make one workspace', async (t) => {
  await postgres.query('CREATE DATABASE at_once')
  const keyFile = `${t.testdir()}/key`
  writeFileSync(keyFile, Buffer.alloc(32, 7), { mode: 0o600 })
  const nodes = ['a', 'b', 'c'].map((name) =>
    node(`${t.testdirName}/${name}`, url('at_once'), { PIPECTL_SECRETS_KEY_FILE: keyFile }),
  )
  const results = await Promise.allSettled(nodes.map((one) => setUpDataDir(one, {})))
  const failed = results.filter((one) => one.status === 'rejected')
  t.equal(failed.length, 2)
  for (const { reason } of failed) t.match(reason, { name: 'AlreadySetUpError' })
  const { metadata } = await open(nodes[0]!)
  t.equal((await metadata.workspaces.list()).length, 1)
  await metadata.close()
})

t.test('a node with another sealing key does not start', async (t) => {
  await postgres.query('CREATE DATABASE keys')
  await setUpDataDir(node(`${t.testdir()}/one`, url('keys')), {})
  const other = `${t.testdirName}/other`
  mkdirSync(other, { mode: 0o700 })
  writeFileSync(path.join(other, 'sealing.key'), Buffer.alloc(32, 1), { mode: 0o600 })
  const wrong = await failure(() => open(node(other, url('keys'))))
  t.type(wrong, ConfigError)
  t.match(wrong.message, /^sealing key: it did not encrypt the secrets of PostgreSQL database keys at /)
})

t.test('a data directory of a single machine is not left lying', async (t) => {
  const root = `${t.testdir()}/single`
  await setUpDataDir(loadSettings({ env: { PIPECTL_DATA_DIR: root } }).settings, {})
  const settings = node(root, url('postgres'))
  const refused = /belongs to a single machine .*metadata\.db\).* Nothing was changed\. .*`pipectl migrate`/
  t.throws(() => requireDirectory(settings), refused)
  t.match((await failure(() => open(settings))).message, refused)
})

t.test('a directory that was made beforehand is closed to others', async (t) => {
  const root = t.testdir({ 'sealing.key': 'x'.repeat(32) })
  requireDirectory(node(root, url('postgres')))
  t.equal(statSync(root).mode & 0o777, 0o700)
  const shared = t.testdir({ 'sealing.key': 'x', 'letter.txt': 'x' })
  t.throws(
    () => requireDirectory(node(shared, url('postgres'))),
    /can be read by other users and contains other files/,
  )
})

t.test('what is wrong with the database is one line', async (t) => {
  const at = (metadataUrl: string) => failure(() => open(node(t.testdir(), metadataUrl)))
  const password = await at(url('postgres', { password: 'wr0ng' }))
  t.type(password, ConfigError)
  t.match(password.message, /password authentication failed .*: check user and password in metadata\.url/)
  const missing = await at(url('nowhere'))
  t.type(missing, ConfigError)
  t.match(missing.message, /"nowhere" does not exist .*: create it/)
  const away = await at(url('postgres', { port: 1 }))
  t.type(away, StorageUnavailableError)
  t.match(away.message, /^metadata: PostgreSQL database postgres at 127\.0\.0\.1:1: .*ECONNREFUSED/)
})

t.test('a start waits for servers that do not answer, and for nothing else', async (t) => {
  let starts = 0
  const comes = async () => {
    starts += 1
    if (starts < 3) throw new StorageUnavailableError('metadata: not there')
    return 'started'
  }
  t.equal(await startWhenReachable(comes, log), 'started')
  t.equal(starts, 3)
  const never = async () => {
    throw new StorageUnavailableError('metadata: not there')
  }
  await t.rejects(
    startWhenReachable(never, log, 0),
    new ServersUnreachableError(new Error('metadata: not there')),
  )
  const wrong = async () => {
    throw new ConfigError('metadata: wrong password')
  }
  await t.rejects(startWhenReachable(wrong, log), { name: 'ConfigError' })
})
