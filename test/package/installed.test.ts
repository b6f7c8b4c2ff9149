/**
 * The installed package: as small as it should be, whole, and every part of it works as a user has it. The other tests run
 * what `npm run build` makes; what is bundled differs from that in how it finds its files, its threads and its packages.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { SourceMap, type SourceMapPayload } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { installPackage } from '../support/package.ts'

const mib = 1024 * 1024
/** The message of an error in src/platform/version.ts. */
const thrown = 'package.json has no version'
const account = {
  bucket: 'events',
  region: 'eu-west-1',
  accessKey: 'AKIDTEST',
  secretKey: 'secret/of+the=test',
}
const run = promisify(execFile)
const checkout = path.resolve(new URL('../../', import.meta.url).pathname)
const installed = await installPackage()
t.teardown(() => installed.remove())
// Read when they are loaded: every daemon and command below is the installed one.
process.env.PIPECTL_PROGRAM = path.join(installed.folder, 'bin', 'pipectl.js')
const { binary, call, cleanEnv, startDaemon } = await import('../support/daemon.ts')
const { cliEnv, finished, makeHome, removeHome, runCli, startCli } = await import('../support/cli.ts')
const { startCluster } = await import('../support/cluster.ts')
const { sectionBlocks } = await import('../support/guide-sections.ts')
const { startHttpSink } = await import('../support/http-sink.ts')
const { startMariadb } = await import('../support/mariadb.ts')
const { cityRecord, writeMmdb } = await import('../support/mmdb.ts')
const { startNats } = await import('../support/nats.ts')
const { startPostgres } = await import('../support/postgres.ts')
const { startSigV4Receiver } = await import('../support/s3.ts')
const { until } = await import('../support/until.ts')

const home = makeHome()
t.teardown(() => removeHome(home))
const files = readdirSync(installed.folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.join(entry.parentPath, entry.name))
const read = (name: string) => readFileSync(path.join(installed.folder, name), 'utf8')
const addons = 'node_modules/better-sqlite3/lib/binding'
const isNative = (file: string) => file.endsWith('.node')
const sizeOf = (some: readonly string[]) => some.reduce((sum, file) => sum + statSync(file).size, 0)
const manifest: { version: string; dependencies: object } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)

const daemon = await startDaemon({
  env: {
    PIPECTL_INGEST_WORKERS: '2',
    PIPECTL_TRUSTED_PROXIES: '127.0.0.0/8',
    PIPECTL_GEOIP_DATABASE: geoFile(),
  },
})
t.teardown(() => daemon.close())
const pipectl = async (...args: string[]) => {
  const { code, stdout, stderr } = await runCli(args, { env: cliEnv(daemon, home) })
  if (code !== 0) throw new Error(`pipectl ${args.join(' ')} ended with ${code}: ${stderr}`)
  return stdout
}

function geoFile(): string {
  const file = path.join(home, 'geo.mmdb')
  const networks = { '192.0.2.0/24': cityRecord({ country: 'DE' }) }
  writeFileSync(file, writeMmdb({ ipVersion: 4, networks }))
  return file
}

t.test('its SQLite syncs with fdatasync, for each version of Node.js', async (t) => {
  for (const abi of ['115', '137'])
    t.ok(
      read(path.join(addons, `node-v${abi}-linux-${process.arch}`, 'better_sqlite3.node')).includes(
        'fdatasync',
      ),
      abi,
    )
})

t.test('it is small: fewer than 2,000 files and 30 MiB, besides what is native', async (t) => {
  t.ok(files.length > 100 && files.length < 2000, `${files.length} files`)
  const bytes = sizeOf(files.filter((file) => !isNative(file)))
  t.ok(bytes > 5 * mib && bytes < 30 * mib, `${Math.round(bytes / mib)} MiB`)
  const packed = sizeOf([installed.tarball])
  t.ok(packed < 16 * mib, `${Math.round(packed / mib)} MiB packed, for one processor`)
})

t.test('nothing in it is of the machine that made it', async (t) => {
  const found = files.filter((file) => readFileSync(file).includes(checkout))
  t.same(found, [])
})

t.test('what the unit file, the guides and the README need is there', async (t) => {
  for (const name of [
    ...['systemd/pipectl.service', 'systemd/pipectl-backup.service', 'systemd/pipectl-backup.timer'],
    ...['config/pipectl.toml', 'monitoring/alerts.yml', 'examples/cluster'],
    ...['docs/cluster.md', 'openapi/management-v1.openapi.yaml', 'LICENSE', 'README.md', 'CHANGELOG.md'],
  ])
    t.ok(existsSync(path.join(installed.folder, name)), name)
})

t.test('the guide says how many files it has, and how many MiB', async (t) => {
  const [, count, size, native] =
    /some (\d+) files and (\d+) MiB, and another (\d+) MiB for each/.exec(read('docs/install.md')) ?? []
  const near = (said: number, is: number) => Math.abs(said - is) < is / 10
  t.ok(near(Number(count), files.length), `${files.length} files`)
  const [own, ofTargets] = [sizeOf(files.filter((file) => !isNative(file))), sizeOf(files.filter(isNative))]
  t.ok(near(Number(size), own / mib), `${own / mib} MiB`)
  t.ok(near(Number(native), ofTargets / 2 / mib), `${ofTargets / 2 / mib} MiB of each target`)
})

t.test('the commands of the guide make a service of it', async (t) => {
  const lines = (sectionBlocks('docs/install.md', 'npm package')[1] ?? '').trim().split('\n')
  const [install, ...rest] = lines
  t.equal(install, `npm install -g ./${path.basename(installed.tarball)}`)
  const ofSystemd = rest.filter((line) => /^(systemctl|cat) /.test(line))
  // The key and the link: what the unit starts has written them (test/package/deb.test.ts).
  t.equal(ofSystemd.length, 3)
  const place = t.testdir()
  const script = rest.filter((line) => !ofSystemd.includes(line)).join('\n')
  const elsewhere = script.replaceAll(/(?<= )\/(?=etc|usr)/g, `${place}/`)
  const prefix = path.dirname(path.dirname(installed.command))
  await run('sh', ['-ec', elsewhere], {
    env: cleanEnv({ npm_config_prefix: prefix, PATH: process.env.PATH ?? '' }),
  })
  const made = (name: string) => readFileSync(path.join(place, name), 'utf8')
  t.equal(made('etc/systemd/system/pipectl.service'), read('systemd/pipectl.service'))
  t.equal(made('usr/share/doc/pipectl/README.md'), read('README.md'))
  t.equal(Buffer.from(made('etc/pipectl/sealing.key'), 'base64').length, 32)
  t.equal(statSync(path.join(place, 'etc/pipectl/sealing.key')).mode & 0o777, 0o600)
})

t.test('it has the license of each package it contains', async (t) => {
  const licenses = read('THIRD-PARTY-LICENSES')
  for (const name of [...Object.keys(manifest.dependencies), 'react-dom', 'yoga-layout', 'pg-types']) {
    // At most one of the two bindings is in it; the loader is our own.
    if (!/uwebsockets|uws-js/i.test(name))
      t.match(licenses, new RegExp(`^${name} \\d\\S* \\(\\S+\\)$`, 'm'), name)
  }
  t.match(licenses, /Permission is hereby granted, free of charge/)
  t.match(licenses, /Apache License\s+Version 2\.0/)
})

t.test('every chunk finds what it imports', async (t) => {
  const folder = path.join(installed.folder, 'dist', 'chunks')
  const chunks = readdirSync(folder).filter((name) => name.endsWith('.js'))
  t.ok(chunks.length > 50)
  const script = chunks.map(
    (name) => `await import(${JSON.stringify(pathToFileURL(path.join(folder, name)))})`,
  )
  const { stdout, stderr } = await run(
    process.execPath,
    ['--input-type=module', '--eval', `${script.join('\n')}\nconsole.log('all')`],
    { env: cleanEnv() },
  )
  t.equal(stdout, 'all\n')
  t.equal(stderr, '')
})

t.test('each thread that is started has its file', async (t) => {
  const threads = files
    .filter((file) => /\/dist\/.*\.js$/.test(file))
    // A long line may end within a text.
    .map((file) => readFileSync(file, 'utf8').replaceAll('\\\n', ''))
    .flatMap((text) => text.match(/(?<=["'`]\.{1,2}\/[\w/.-]*)\b[a-z-]+-thread(?=["'`])/g) ?? [])
  t.ok(new Set(threads).size >= 9, [...new Set(threads)].join(' '))
  for (const name of new Set(threads))
    t.ok(
      files.some((file) => file.endsWith(`/${name}.js`)),
      name,
    )
})

t.test('the daemons and commands of this test are the installed ones', async (t) => {
  t.equal(binary, process.env.PIPECTL_PROGRAM)
  t.match(readFileSync(`/proc/${daemon.pid}/cmdline`, 'utf8'), installed.folder)
})

t.test(
  'a daemon loads drivers and clusters, and a command the terminal interface, only when they are needed',
  async (t) => {
    const hooks = new URL('../support/loaded-modules.mjs', import.meta.url).href
    const loadedBy = async (use: (env: Record<string, string>) => Promise<unknown>) => {
      const file = path.join(t.testdir(), 'loaded')
      await use({ NODE_OPTIONS: `--import=${hooks}`, PIPECTL_TEST_LOADED: file })
      return sourcesOf(readFileSync(file, 'utf8').split('\n'))
    }
    const ofDaemon = await loadedBy(async (env) => {
      const idle = await startDaemon({ env })
      await idle.createPipe({ pipe_name: 'events' })
      await idle.close()
    })
    t.ok(
      ofDaemon.includes('src/daemon/threads/delivery-thread.ts') && ofDaemon.includes('src/daemon/daemon.ts'),
    )
    const lazy =
      /node_modules\/(@nats-io|@aws-sdk|@smithy|mysql2|pg|ink|react|pino-pretty)\/|src\/destinations\/\w+\/driver\.ts/
    t.same(
      ofDaemon.filter((source) => lazy.test(source)),
      [],
    )
    const ofVersion = await loadedBy((env) => runCli(['--version'], { env }))
    t.ok(ofVersion.includes('src/platform/version.ts'))
    t.same(
      ofVersion.filter((source) => /node_modules\/(?!(commander|smol-toml|ipaddr\.js)\/)/.test(source)),
      [],
    )
  },
)

/** The sources in these chunks, according to their source maps. */
function sourcesOf(urls: string[]): string[] {
  const maps = urls
    .filter((url) => url.startsWith(pathToFileURL(installed.folder).href))
    .map((url) => `${fileURLToPath(url)}.map`)
  return [...new Set(maps)].filter((file) => existsSync(file)).flatMap(sourcesIn)
}

function sourcesIn(file: string): string[] {
  const map: SourceMapPayload = JSON.parse(readFileSync(file, 'utf8'))
  return map.sources.map((source) =>
    path.relative(installed.folder, path.resolve(path.dirname(file), source)),
  )
}

t.test('--version, and completion for each shell, by the name on the PATH', async (t) => {
  const { stdout } = await run(installed.command, ['--version'], { env: cleanEnv() })
  t.equal(stdout.trim(), manifest.version)
  for (const shell of ['bash', 'zsh', 'fish'])
    t.match(
      (await run(installed.command, ['completion', shell], { env: cleanEnv() })).stdout,
      /pipectl __complete/,
    )
})

t.test('with its source maps the lines of stacks are those of src/', async (t) => {
  const chunk =
    files.find((file) => file.endsWith('.js') && readFileSync(file, 'utf8').includes(thrown)) ?? ''
  const map: SourceMapPayload = JSON.parse(readFileSync(`${chunk}.map`, 'utf8'))
  const entry = new SourceMap(map).findEntry(...placeOf(thrown, readFileSync(chunk, 'utf8')))
  const source = path.resolve(path.dirname(chunk), 'originalSource' in entry ? entry.originalSource : '')
  t.equal(path.relative(installed.folder, source), 'src/platform/version.ts')
  const written = readFileSync(path.join(checkout, 'src', 'platform', 'version.ts'), 'utf8')
  t.equal('originalLine' in entry ? entry.originalLine : null, placeOf(thrown, written)[0])
})

/** Line and column, from 0. */
function placeOf(wanted: string, text: string): [number, number] {
  const before = text.slice(0, text.indexOf(wanted)).split('\n')
  return [before.length - 1, before.at(-1)?.length ?? 0]
}

t.test('every kind of destination passes its test and delivers', async (t) => {
  const [postgres, mariadb, store, sink, nats] = await Promise.all([
    startPostgres(),
    startMariadb(),
    startSigV4Receiver(account),
    startHttpSink(),
    startNats({ maxPayload: 4 * mib }),
  ])
  const servers = [postgres, mariadb, store, sink, nats]
  t.teardown(() => Promise.all(servers.map((server) => server.stop())))
  await nats.ready()
  const connection = await nats.connect()
  const streams = (await jetstreamManager(connection)).streams
  await streams.add({ name: 'EVENTS', subjects: ['events'] })
  t.teardown(() => connection.close())
  const table = 'CREATE TABLE events (id int, country varchar(10))'
  await Promise.all([postgres.query(table), mariadb.query(table)])

  const pipe = await daemon.createPipe({ pipe_name: 'events', pipe_ingest_geo_country_field: 'country' })
  const database = ({
    host,
    port,
    database,
    user: username,
    password,
  }: typeof postgres | typeof mariadb) => ({
    ...{ host, port, database, username, password, table: 'events' },
  })
  const columns = [
    { column_name: 'id', column_type: 'number' },
    { column_name: 'country', column_type: 'string' },
  ]
  const { bucket, region, accessKey: access_key, secretKey: secret_key } = account
  const objects = { bucket, region, access_key, secret_key, endpoint: store.endpoint }
  const destinations = [
    { destination_type: 'destination_database', destination_config: database(postgres), columns },
    {
      destination_type: 'destination_database',
      destination_config: { ...database(mariadb), dialect: 'mariadb' },
      columns,
    },
    {
      destination_type: 'destination_sqlite',
      destination_config: { file: 'shop', table: 'events' },
      columns,
    },
    {
      destination_type: 'destination_object_store',
      destination_config: objects,
      // Unless it is told otherwise, it waits a minute for more.
      flush: { max_records: 1000, max_bytes: mib, max_seconds: 0 },
    },
    { destination_type: 'destination_http_endpoint', destination_config: { url: `${sink.url}/` } },
    { destination_type: 'destination_nats', destination_config: { url: nats.url, subject: 'events' } },
    { destination_type: 'destination_pull', destination_config: {} },
  ]
  const proposed = await daemon.api('POST', `/v1/pipes/${pipe}/destinations/infer`, {
    ...{ destination_type: 'destination_sqlite', destination_config: { file: 'shop', table: 'events' } },
    ...{ sample: '{"id":1,"country":"DE"}', create_table: true, dedupe_id: 'none' },
  })
  t.match(proposed.body, { ok: true, table_exists: true }, proposed.text)
  const ids: string[] = []
  for (const destination of destinations) {
    const tried = await daemon.api('POST', `/v1/pipes/${pipe}/destinations/test`, destination)
    t.match(tried.body, { ok: true }, `${destination.destination_type} ${tried.text}`)
    ids.push(await daemon.createDestination(pipe, destination))
  }
  await daemon.ingest(pipe, [{ id: 1 }, { id: 2 }], { headers: { 'x-forwarded-for': '192.0.2.1' } })
  // As long as this, a body is parsed in a thread of its own.
  await daemon.ingest(pipe, [{ id: 3, text: 'x'.repeat(2 * mib) }], {
    headers: { 'x-forwarded-for': '192.0.2.1' },
  })
  for (const [index, id] of ids.slice(0, -1).entries()) {
    const what = destinations[index]?.destination_type
    await until(`${what} delivers`, async () => (await daemon.lane(pipe, id)).delivered_records === 3)
  }

  const rows = [1, 2, 3].map((id) => ({ id, country: 'DE' }))
  t.same(await postgres.query('SELECT id, country FROM events ORDER BY id'), rows)
  t.match(await mariadb.query('SELECT id, country FROM events ORDER BY id'), rows)
  t.equal(store.objects.size > 0, true)
  t.match(sink.records(), rows)
  t.equal((await streams.info('EVENTS')).state.messages, 3)
  t.match(await pipectl('pull', 'events/pull'), /"id":1,.*\n.*"id":2,.*\n.*"id":3,/)
})

t.test('the dashboard, the guides and the API document are served', async (t) => {
  const page = await call('GET', `${daemon.url}/dashboard/`, {})
  t.equal(page.status, 200)
  const [, script = ''] = /src="(\/dashboard\/assets\/[^"]+\.js)"/.exec(page.text) ?? []
  t.match(await call('GET', `${daemon.url}${script}`, { 'accept-encoding': 'br' }), {
    status: 200,
    headers: { 'content-type': 'text/javascript; charset=utf-8', 'content-encoding': 'br' },
  })
  t.match(await call('GET', `${daemon.url}/docs/`, {}), { status: 200, text: /<h1/ })
  t.match(await pipectl('openapi'), /^openapi: /)
  t.match((await call('GET', daemon.metricsUrl, {})).text, /^pipectl_build_info/m)
})

t.test('commands: messages, tail, apply, doctor, words for the shell', async (t) => {
  const [id = ''] = (await pipectl('messages', 'events', '-o', 'name')).trim().split('\n')
  t.match(await pipectl('why', id), /delivered/)
  const file = path.join(home, 'workspace.yaml')
  writeFileSync(file, 'pipes:\n  - pipe_name: applied\n')
  t.match(await pipectl('apply', '-f', file, '--yes'), /applied/)
  t.match(await pipectl('export'), /pipe_name: applied/)
  t.match(await pipectl('status', '-o', 'table'), /pipes +2, 0 paused/)
  t.match(await pipectl('__complete', '--', 'pipes', 'get', ''), /applied/)
  t.match(await pipectl('doctor', '--data-dir', daemon.dataDir), /fsync/)
})

t.test('alerts are posted, by a thread of their own', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  await pipectl('alerts', 'set', '--url', `${sink.url}/alert`)
  await pipectl('alerts', 'test')
  t.equal(sink.deliveries[0]?.path, '/alert')
})

t.test('top draws in a terminal', async (t) => {
  const socket = path.join(home, 'tmux')
  const tmux = (...args: string[]) => run('tmux', ['-S', socket, '-f', '/dev/null', ...args])
  t.teardown(() => tmux('kill-server').catch(() => {}))
  const settings = Object.entries(cliEnv(daemon, home)).map(([name, value]) => `export ${name}='${value}'\n`)
  const script = path.join(home, 'top.sh')
  // Ink draws nothing where it believes to be in CI.
  const unset = 'unset CI CONTINUOUS_INTEGRATION $(env | grep -o "^CI_[A-Z_]*")\n'
  writeFileSync(script, `${unset}${settings.join('')}'${installed.command}' top\nread wait\n`, {
    mode: 0o700,
  })
  await tmux('new-session', '-d', '-s', 'top', '-x', '100', '-y', '30', `sh ${script}`)
  await until('the pipe is on the screen', async () => {
    return /events[\s\S]*http-endpoint/.test((await tmux('capture-pane', '-p', '-t', 'top')).stdout)
  })
})

t.test('backup, verify and restore; the restored one serves, with a readable log', async (t) => {
  const file = path.join(home, 'backup.tar.gz')
  await pipectl('backup', file, '--include-key', '--data-dir', daemon.dataDir)
  const restored = path.join(home, 'restored')
  await pipectl('restore', file, '--data-dir', restored)
  await pipectl('verify', '--data-dir', restored)
  const args = ['serve', '--data-dir', restored, '--listen', '127.0.0.1:0', '--metrics-listen', 'off']
  const child = startCli([...args, '--log-format', 'pretty'])
  let log = ''
  child.stderr?.on('data', (text: Buffer) => {
    log += text
  })
  await until('it is ready', () => log.includes('daemon.ready'))
  t.match(log, /INFO.*: .*daemon\.ready/)
  child.kill('SIGTERM')
  t.equal((await finished(child)).code, 0)
})

t.test('a node of a cluster', async (t) => {
  const cluster = await startCluster()
  t.teardown(() => cluster.close())
  const [node] = cluster.nodes
  if (node === undefined) throw new Error('there is no node')
  const pipe = await node.createPipe({ pipe_name: 'events' })
  await node.createDestination(pipe, { destination_type: 'destination_pull', destination_config: {} })
  await node.ingest(pipe, { id: 1 })
  const { code, stdout } = await runCli(['pull', 'events/pull', '--once'], { env: cliEnv(node, home) })
  t.equal(code, 0)
  t.match(stdout, /"id":1/)
})
