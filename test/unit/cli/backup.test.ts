import { spawnSync } from 'node:child_process'
import {
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import type { AuditEntry } from '../../../src/contract/audit.ts'
import { cliEnv, homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { until } from '../../support/until.ts'

const home = makeHome()
t.teardown(() => removeHome(home))
const backup = (daemonDir: string, file: string, ...more: string[]) =>
  runCli(['backup', file, '--data-dir', daemonDir, ...more], { env: homeEnv(home) })
const restore = (file: string, dir: string, ...flags: string[]) =>
  runCli(['restore', file, '--data-dir', dir, ...flags], { env: homeEnv(home) })

t.test('a backup under load holds every message acknowledged before it began', async (t) => {
  // Small segments: the backup must cope with some being sealed and begun while it runs.
  const daemon = await startDaemon({ env: { PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '65536' } })
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'loaded', pipe_add_ingest_ts: false })
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
  const acknowledged: number[] = []
  let next = 0
  let isLoading = true
  const filler = 'x'.repeat(500)
  const sender = async () => {
    while (isLoading) {
      const id = next++
      await daemon.ingest(pipeId, `{"id":${id},"filler":"${filler}"}`)
      acknowledged.push(id)
    }
  }
  const senders = Array.from({ length: 16 }, sender)
  await until('load is on', () => acknowledged.length > 500)
  const before = [...acknowledged]
  const file = path.join(home, 'loaded.tar.gz')
  const made = await backup(daemon.dataDir, file, '--include-key')
  const atEnd = acknowledged.length
  isLoading = false
  await Promise.all(senders)
  await daemon.ingest(pipeId, '{"id":-1}')
  t.equal(made.code, 0, made.stderr)
  t.ok(atEnd > before.length, 'requests were answered while it ran')
  t.equal(statSync(file).mode & 0o777, 0o600)

  const dir = path.join(home, 'loaded')
  t.equal((await restore(file, dir)).code, 0)
  t.equal(statSync(path.join(dir, 'sealing.key')).mode & 0o777, 0o600)
  const second = await startDaemon({ dataDir: dir })
  t.teardown(() => second.close())
  const missing = second.log.find((line) => /missing/.test(line.msg))
  t.equal(missing, undefined, 'the restored buffer misses nothing it promised')
  second.apiKey = daemon.apiKey
  const { body } = await second.api<{ audit: AuditEntry[] }>('GET', '/v1/audit?limit=1')
  t.match(body.audit, [
    {
      operation: 'restoreBackup',
      actor: { kind: 'local' },
      after: { epoch: 2, destinations_blocked: false },
    },
  ])
  const pulled = await runCli(['pull', 'loaded/pull'], { env: cliEnv(second, path.join(home, 'second')) })
  t.equal(pulled.code, 0, pulled.stderr)
  const ids = new Set(
    pulled.stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).id),
  )
  t.same(
    before.filter((id) => !ids.has(id)),
    [],
    'every one of them is there',
  )
  t.notOk(ids.has(-1), 'what came after it is not: the check above can fail')
})

t.test(
  'restore --paused blocks every destination, so that nothing is delivered before a person has looked',
  async (t) => {
    const daemon = await startDaemon()
    t.teardown(() => daemon.close())
    const pipeId = await daemon.createPipe({ pipe_name: 'paused' })
    await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
    const file = path.join(home, 'paused.tar.gz')
    t.equal((await backup(daemon.dataDir, file)).code, 0)
    const statuses = (dir: string) => {
      const database = new Database(path.join(dir, 'metadata.db'), { readonly: true })
      const rows = database.prepare('SELECT destination_status FROM destinations').pluck().all()
      database.close()
      return rows
    }
    const [paused, going] = [path.join(home, 'paused'), path.join(home, 'going')]
    const ran = await restore(file, paused, '--paused')
    t.equal(ran.code, 0, ran.stderr)
    t.match(ran.stderr, /Every destination is blocked/)
    t.notOk(existsSync(path.join(paused, 'metadata.db-wal')))
    t.same(statuses(paused), ['blocked'])
    t.equal((await restore(file, going)).code, 0)
    t.same(statuses(going), ['active'], 'negative control')
  },
)

t.test('root restores into an empty directory for its owner, also by a link to it', async (t) => {
  const isRoot = process.getuid?.() === 0
  const owner = isRoot ? 65_534 : process.getuid!()
  const [from, file] = [path.join(home, 'of-somebody'), path.join(home, 'of-somebody.tar.gz')]
  t.equal((await runCli(['init', '--data-dir', from], { env: homeEnv(home) })).code, 0)
  t.equal((await backup(from, file, '--include-key')).code, 0)
  const empty = path.join(home, 'private')
  mkdirSync(empty)
  if (isRoot) chownSync(empty, owner, owner)
  // As systemd has it for a dynamic user.
  const link = path.join(home, 'linked')
  symlinkSync('private', link)
  const { code, stderr } = await restore(file, link)
  t.equal(code, 0, stderr)
  t.ok(lstatSync(link).isSymbolicLink())
  const restored = ['.', ...readdirSync(empty, { recursive: true, encoding: 'utf8' })]
  t.ok(restored.includes('metadata.db') && restored.includes('sealing.key'))
  for (const name of restored) t.equal(statSync(path.join(empty, name)).uid, owner, name)
  t.same(
    readdirSync(home).filter((name) => name.includes('.restoring-')),
    [],
  )
})

t.test('--keep: dated backups of one data directory, of which the newest are kept', async (t) => {
  const [own, other, into] = ['of-one', 'of-another', 'dated'].map((name) => path.join(home, name))
  for (const dir of [own!, other!])
    t.equal((await runCli(['init', '--data-dir', dir], { env: homeEnv(home) })).code, 0)
  mkdirSync(into!)
  const names = () => readdirSync(into!).sort()
  const foreign = await backup(other!, into!, '--keep', '1')
  t.equal(foreign.code, 0, foreign.stderr)
  const [ofAnother = ''] = names()
  // Names that differ from a backup's in one part, and a folder with a name that does not.
  const one = await backup(own!, into!, '--keep', '5')
  const first = names().find((name) => name !== ofAnother)!
  t.match(first, /^pipectl-[0-9a-f]{8}-\d{8}T\d{6}\.\d{3}Z\.tar\.gz$/)
  t.match(one.stderr, `to ${path.join(into!, first)}: `)
  const kept = [`${first}.old`, `my-${first}`, first.replace('.tar.gz', '.tar'), 'pipectl-backup.tar.gz']
  for (const name of kept) writeFileSync(path.join(into!, name), 'x')
  const folder = first.replace(/\d{8}T/, '20000101T')
  mkdirSync(path.join(into!, folder))
  const others = new Set([...kept, ofAnother, folder])
  const backups = () => names().filter((name) => !others.has(name))

  let newest = first
  for (let night = 2; night <= 5; night++) {
    const before = backups()
    const ran = await backup(own!, into!, '--keep', '3')
    t.equal(ran.code, 0, ran.stderr)
    const after = backups()
    t.equal(after.length, Math.min(night, 3), `night ${night}`)
    newest = after.find((name) => !before.includes(name))!
    t.same(after, [...before, newest].sort().slice(-3), 'the oldest goes')
    t.equal(ran.stderr.includes(`Removed ${before[0]},`), night > 3)
  }
  t.same(
    names().filter((name) => others.has(name)),
    [...others].sort(),
    'nothing else is touched',
  )
  t.equal(statSync(path.join(into!, newest)).mode & 0o777, 0o600)
  t.equal((await restore(path.join(into!, newest), path.join(home, 'from-dated'))).code, 0)

  const before = backups()
  const damaged = path.join(home, 'damaged-metadata')
  mkdirSync(damaged)
  writeFileSync(path.join(damaged, 'metadata.db'), 'no database')
  t.not((await backup(damaged, into!, '--keep', '1')).code, 0)
  // The identity is read, and the copy of the buffer fails.
  mkdirSync(path.join(own!, 'buffer'), { recursive: true })
  writeFileSync(path.join(own!, 'buffer', 'idempotency.db'), 'no database')
  t.not((await backup(own!, into!, '--keep', '1')).code, 0)
  t.same(backups(), before, 'a backup that fails removes nothing')
  t.equal(names().filter((name) => name.startsWith('.pipectl-backup-')).length, 0)
  rmSync(path.join(own!, 'buffer', 'idempotency.db'))

  // A clock that was set back gives the new backup the oldest name.
  const future = first.replace(/\d{8}T/, '29990101T')
  for (const name of backups()) rmSync(path.join(into!, name))
  writeFileSync(path.join(into!, future), 'x')
  t.equal((await backup(own!, into!, '--keep', '1')).code, 0)
  t.equal(backups().length, 1)
  t.not(backups()[0], future, 'the new backup is never the one that is removed')
})

t.test('--keep: what it cannot do names the flag', async (t) => {
  const own = path.join(home, 'of-one')
  const file = path.join(home, 'a-file')
  writeFileSync(file, 'x')
  for (const count of ['0', '-1', '1.5', 'seven', '']) {
    const { code, stderr } = await backup(own, home, `--keep=${count}`)
    t.equal(code, 2, count)
    t.match(stderr, /--keep/)
  }
  const none = path.join(home, 'no-such-directory')
  for (const [target, code] of [
    [none, 3],
    [file, 5],
  ] as const) {
    const ran = await backup(own, target, '--keep', '2')
    t.equal(ran.code, code)
    t.match(ran.stderr, `--keep writes into a directory, and ${target} `)
  }
  t.notOk(existsSync(none))
  const elsewhere = await backup(path.join(home, 'not-a-data-dir'), home, '--keep', '2')
  t.equal(elsewhere.code, 3)
  t.match(elsewhere.stderr, /no metadata\.db/)
})

t.test('the archive is plain tar; the key is in it only when asked for', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const file = path.join(home, 'plain.tar.gz')
  const made = await backup(daemon.dataDir, file)
  t.equal(made.code, 0, made.stderr)
  t.match(made.stderr, /sealing key is not in it/)
  const listed = spawnSync('tar', ['tzf', file]).stdout.toString()
  t.match(listed, /^metadata\.db\n/)
  t.match(listed, /manifest\.json\n$/)
  t.notMatch(listed, /sealing\.key/)
  t.equal((await backup(daemon.dataDir, file)).code, 5, 'it never replaces a file')
  t.equal((await backup(path.join(home, 'none'), path.join(home, 'x.tar.gz'))).code, 3)
  t.notOk(existsSync(path.join(home, 'x.tar.gz')))
  await daemon.stop()
  const stopped = path.join(home, 'stopped.tar.gz')
  t.equal((await backup(daemon.dataDir, stopped)).code, 0, 'also without a running daemon')
})

t.test(
  'restore rejects a directory that is not empty and a backup that is not whole, and leaves nothing',
  async (t) => {
    const file = path.join(home, 'plain.tar.gz')
    const dir = path.join(home, 'full')
    mkdirSync(dir)
    writeFileSync(path.join(dir, 'mine'), 'x')
    t.equal((await restore(file, dir)).code, 5)
    t.equal(readFileSync(path.join(dir, 'mine'), 'utf8'), 'x')

    const whole = readFileSync(file)
    const target = path.join(home, 'damaged')
    const damaged = path.join(home, 'damaged.tar.gz')
    const attempts: [string, Buffer][] = [
      ['cut short', whole.subarray(0, Math.floor(whole.length / 2))],
      ['not an archive', Buffer.from('hello')],
    ]
    for (const [name, content] of attempts) {
      writeFileSync(damaged, content)
      const ran = await restore(damaged, target)
      t.equal(ran.code, 1, name)
      t.match(ran.stderr, /not a complete backup/)
      t.notOk(existsSync(target), `${name}: nothing is left`)
    }

    // A file of it is changed and packed again: only the manifest can tell.
    const work = path.join(home, 'work')
    mkdirSync(work)
    spawnSync('tar', ['xzf', file, '-C', work])
    writeFileSync(path.join(work, 'metadata.db'), 'other')
    const list = spawnSync('tar', ['tzf', file]).stdout.toString().trim().split('\n')
    spawnSync('tar', ['czf', damaged, '--format=ustar', '-C', work, ...list])
    const changed = await restore(damaged, target)
    t.equal(changed.code, 1)
    t.match(changed.stderr, /metadata\.db is missing or damaged/)

    // A name that leads out of the directory.
    copyFileSync(path.join(work, 'metadata.db'), path.join(work, 'evil'))
    spawnSync('tar', [
      'czf',
      damaged,
      '--format=ustar',
      '-P',
      '-C',
      work,
      '--transform',
      's,evil,../evil,',
      'evil',
    ])
    const outside = await restore(damaged, target)
    t.equal(outside.code, 1)
    t.notOk(existsSync(path.join(home, 'evil')))
    rmSync(damaged)
  },
)

t.test('doctor looks at a host with and without a daemon', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const doctor = (env: Record<string, string>, ...args: string[]) =>
    runCli(['doctor', ...args, '-o', 'json'], { env: { ...homeEnv(home), ...env } })
  const port = new URL(daemon.url).port
  const settings = {
    PIPECTL_DATA_DIR: daemon.dataDir,
    PIPECTL_LISTEN: `127.0.0.1:${port}`,
    PIPECTL_METRICS_LISTEN: 'off',
    PIPECTL_BUFFER_MIN_FREE_BYTES: '0',
  }
  const well = await doctor(settings)
  t.equal(well.code, 0, well.stderr)
  const { checks } = JSON.parse(well.stdout)
  const of = (name: string) => checks.find((one: { name: string }) => one.name === name)
  t.match(of('data directory'), { result: 'ok', detail: /a daemon is running/ })
  t.match(of('listen'), { result: 'ok' })
  t.match(of('fsync time').detail, /ms \(median\)/)
  t.match(of('sealing key'), { result: 'ok' })

  const wrongKey = path.join(home, 'wrong.key')
  writeFileSync(wrongKey, Buffer.alloc(32, 7).toString('base64'), { mode: 0o600 })
  const sealed = await doctor({ ...settings, PIPECTL_SECRETS_KEY_FILE: wrongKey })
  t.equal(sealed.code, 1, 'a key that the daemon would not start with')
  t.match(
    JSON.parse(sealed.stdout).checks.find((one: { name: string }) => one.name === 'sealing key'),
    { result: 'fail', detail: /did not encrypt the secrets of .*metadata\.db/ },
  )

  const other = path.join(home, 'unmade')
  const taken = await doctor({
    ...settings,
    PIPECTL_DATA_DIR: other,
    PIPECTL_GEOIP_DATABASE: '/no/such.mmdb',
  })
  t.equal(taken.code, 1, 'the port is taken by another program')
  // The Node.js of this machine is its own affair.
  const found = JSON.parse(taken.stdout).checks.filter((one: { name: string }) => one.name !== 'Node.js')
  t.match(
    found.filter((one: { result: string }) => one.result !== 'ok').map((one: { name: string }) => one.name),
    ['data directory', 'geolocation', 'listen'],
  )
  for (const one of found) if (one.result !== 'ok') t.not(one.next, '', `${one.name} says what to do`)
  t.equal((await doctor({ PIPECTL_LISTEN: 'nonsense' })).code, 2)
})
