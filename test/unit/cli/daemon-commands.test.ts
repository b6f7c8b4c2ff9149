import { spawn } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { runCli } from '../../support/cli.ts'
import { binary, call, cleanEnv, createWorkspace, makeDataDir, startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { programFile } from '../../support/programs.ts'
import { until } from '../../support/until.ts'

const pipectl = (args: string[], env: Record<string, string> = {}) => runCli(args, { env })

function dataDir(t: Tap): string {
  const dir = makeDataDir()
  t.teardown(() => rmSync(path.dirname(dir), { recursive: true, force: true }))
  return dir
}
interface Tap {
  teardown(fn: () => unknown): void
}

/** Every workspace and key of a data directory, as its file holds them. */
async function keyRows(dir: string): Promise<unknown[]> {
  const file = new Database(path.join(dir, 'metadata.db'), { readonly: true })
  try {
    return [
      ...file.prepare('SELECT * FROM workspaces').all(),
      ...file.prepare('SELECT * FROM api_keys').all(),
    ]
  } finally {
    file.close()
  }
}

const oneError = /^error: [^\n]+\n( {2}next: [^\n]+\n)?$/

t.test('init sets up a data directory and shows the first key once', async (t) => {
  const dir = dataDir(t)
  const first = await pipectl(['init', '--json', '--data-dir', dir])
  t.equal(first.code, 0, first.stderr)
  const created = JSON.parse(first.stdout)
  t.same(Object.keys(created), ['workspace_id', 'workspace_name', 'api_key_id', 'api_key', 'setup_url'])
  t.match(created.setup_url, /^http:\/\/127\.0\.0\.1:8080\/dashboard\/setup#[\w-]{43}$/)
  t.equal(created.workspace_name, 'default')
  t.match(created.api_key, /^ppl1_[0-9A-Za-z]{38}$/)
  t.equal(statSync(dir).mode & 0o777, 0o700)
  t.equal(statSync(path.join(dir, 'sealing.key')).mode & 0o777, 0o600)
  const keysBefore = await keyRows(dir)

  const again = await pipectl(['init', '--json', '--data-dir', dir])
  t.equal(again.code, 1)
  t.equal(again.stdout, '')
  t.match(again.stderr, oneError)
  t.match(again.stderr, /is already set up; nothing was changed/)
  t.same(await keyRows(dir), keysBefore, 'no key and no workspace was added')
})

t.test(
  'a data directory that was made beforehand is closed to others; one in use by others is rejected',
  async (t) => {
    const root = t.testdir({ empty: {}, shared: { 'notes.txt': '' } })
    const [empty, shared] = [path.join(root, 'empty'), path.join(root, 'shared')]
    for (const dir of [empty, shared]) chmodSync(dir, 0o755)
    const made = await pipectl(['init', '--data-dir', empty])
    t.equal(made.code, 0, made.stderr)
    t.equal(statSync(empty).mode & 0o777, 0o700)
    const refused = await pipectl(['init', '--data-dir', shared])
    t.equal(refused.code, 78)
    t.match(refused.stderr, /can be read by other users and contains other files; use a directory inside it/)
    t.equal(statSync(shared).mode & 0o777, 0o755, 'and is left as it is')
  },
)

t.test('serve on a directory that is not set up ends with 78 and says what to do', async (t) => {
  const dir = dataDir(t)
  const ran = await pipectl(['serve', '--data-dir', dir, '--listen', '127.0.0.1:0'])
  t.equal(ran.code, 78)
  t.match(ran.stderr, oneError)
  t.match(ran.stderr, /is not set up; run `pipectl init/)
  t.notOk(existsSync(dir))
})

t.test('a data directory that cannot be made ends with 78, at once', async (t) => {
  for (const dir of ['/proc/x', '/proc/x/y', '/dev/null/x']) {
    const ran = await pipectl(['init', '--data-dir', dir])
    t.equal(ran.code, 78, dir)
    t.match(ran.stderr, /data_dir: .* cannot be created \(E[A-Z]+\)/)
  }
})

t.test('a wrong setting ends with 78 and one line that names it and what is allowed', async (t) => {
  const wrong: [string[], Record<string, string>, RegExp][] = [
    [['--listen', 'nowhere'], {}, /--listen: must be host:port/],
    [[], { PIPECTL_BUFFER_MAX_BYTES: 'lots' }, /PIPECTL_BUFFER_MAX_BYTES: must be a size/],
    [[], { DESTINATION_DB_SSL: 'yes' }, /DESTINATION_DB_SSL: must be true or false/],
    [['--config', '/nonexistent/pipectl.toml'], {}, /cannot be read \(ENOENT\)/],
    [['--listen', '203.0.113.7:1'], {}, /listen.*203\.0\.113\.7:1/],
  ]
  const dir = dataDir(t)
  await pipectl(['init', '--data-dir', dir])
  for (const [args, env, message] of wrong) {
    const ran = await pipectl(['serve', '--data-dir', dir, ...args], {
      PIPECTL_METRICS_LISTEN: 'off',
      ...env,
    })
    t.equal(ran.code, 78, ran.stderr)
    t.match(ran.stderr, oneError)
    t.match(ran.stderr, message)
  }
})

t.test('wrong usage ends with 2', async (t) => {
  t.equal((await pipectl(['no-such-command'])).code, 2)
  t.equal((await pipectl(['serve', '--no-such-flag'])).code, 2)
  t.equal((await pipectl(['workspaces', 'create'])).code, 2)
  t.equal((await pipectl(['--version'])).code, 0)
})

t.test('a running daemon', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())

  t.test('answers health without a key', async (t) => {
    const health = await daemon.api('GET', '/v1/health', undefined, { key: null })
    t.equal(health.status, 200)
    t.equal(health.body.status, 'ok')
    t.equal(new Date(String(health.body.timestamp)).toISOString(), health.body.timestamp)
  })

  t.test('keeps a second daemon off its data directory: 75, itself undisturbed', async (t) => {
    const ran = await pipectl(['serve', '--data-dir', daemon.dataDir, '--listen', '127.0.0.1:0'])
    t.equal(ran.code, 75)
    t.match(ran.stderr, oneError)
    t.match(ran.stderr, /is in use by another pipectl daemon/)
    t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
  })

  t.test('keeps a second daemon off its address: 75, itself undisturbed', async (t) => {
    const other = dataDir(t)
    await pipectl(['init', '--data-dir', other])
    for (const setting of ['listen', 'metrics-listen']) {
      const address = new URL(setting === 'listen' ? daemon.url : daemon.metricsUrl).host
      const ran = await pipectl(
        ['serve', '--data-dir', other, '--listen', '127.0.0.1:0', `--${setting}`, address],
        {
          ...(setting === 'listen' ? { PIPECTL_METRICS_LISTEN: 'off' } : {}),
        },
      )
      t.equal(ran.code, 75, ran.stderr)
      t.match(ran.stderr, oneError)
      t.match(ran.stderr, address)
    }
    t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
  })

  t.test(
    'takes the key of a workspace that was created meanwhile, and shows it nothing of the other',
    async (t) => {
      await daemon.createPipe({ pipe_name: 'mine' })
      const second = await createWorkspace(daemon.dataDir, 'second')
      t.match(second, { workspace_name: 'second', api_key: /^ppl1_/ })
      const listed = await daemon.api('GET', '/v1/pipes', undefined, { key: second.api_key })
      t.equal(listed.status, 200)
      t.same(listed.body.pipes, [])
      const list = await pipectl(['workspaces', 'list', '--json', '--data-dir', daemon.dataDir])
      t.match(JSON.parse(list.stdout), {
        workspaces: [{ workspace_name: 'default' }, { workspace_name: 'second' }],
      })
      const local = ['keys', 'create', 'rescue', '--local', '--data-dir', daemon.dataDir]
      const rescue = await pipectl([...local, '--workspace', 'second', '-o', 'json'])
      t.equal(rescue.code, 0, rescue.stderr)
      const { api_key: key } = JSON.parse(rescue.stdout)
      t.equal((await daemon.api('GET', '/v1/pipes', undefined, { key })).status, 200, 'at once')
      t.equal((await pipectl([...local, '--workspace', 'third'])).code, 3)
      const taken = await pipectl(['workspaces', 'create', 'second', '--data-dir', daemon.dataDir])
      t.equal(taken.code, 5, 'conflict')
      t.match(taken.stderr, /^error: workspace second already exists\n {2}next: choose another name\n$/)
      t.equal((await pipectl(['workspaces', 'create', 'a b', '--data-dir', daemon.dataDir])).code, 2)
    },
  )

  t.test('serves metrics on a listener of its own', async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'measured' })
    const destinationId = await daemon.createDestination(pipeId, {
      destination_type: 'destination_pull',
      destination_config: {},
    })
    await daemon.ingest(pipeId, [{ a: 1 }, { a: 2 }])
    const text = (await call('GET', daemon.metricsUrl, {})).text
    t.match(text, `pipectl_ingest_records_total{pipe_id="${pipeId}",pipe="measured"} 2`)
    t.match(text, `pipectl_ingest_requests_total{pipe_id="${pipeId}",pipe="measured"} 1`)
    t.notMatch(text, 'worker="')
    const names = `pipe_id="${pipeId}",pipe="measured",destination_id="${destinationId}",destination="pull"`
    const lane = `{${names},type="destination_pull"`
    t.match(text, `pipectl_lane_pending_messages${lane}} 1`)
    t.match(text, `pipectl_lane_state${lane},state="flowing"} 1`)
    t.match(text, /^pipectl_buffer_size_bytes [1-9]/m)
    t.match(text, /^nodejs_eventloop_lag_p99_seconds /m)
    t.notMatch(text, daemon.apiKey)
  })

  t.test('logs no secret and nothing but JSON lines', async (t) => {
    t.same(daemon.noise, [])
    t.notMatch(JSON.stringify(daemon.log), daemon.apiKey)
  })

  t.test('ends with 0 on SIGTERM, also while a pull waits, which is answered 204', async (t) => {
    const pipeId = await daemon.createPipe({ pipe_name: 'waited-for' })
    const id = await daemon.createDestination(pipeId, {
      destination_type: 'destination_pull',
      destination_config: {},
    })
    const waiting = daemon.api('GET', `/v1/pull/${id}?wait_ms=30000`)
    await until(
      'the daemon sees the pull',
      async () => (await daemon.api('GET', '/v1/health')).status === 200,
    )
    const code = daemon.stop()
    t.equal((await waiting).status, 204)
    t.equal(await code, 0)
  })
})

t.test(
  'with data_listen ingest and pull have an address of their own, and management is not on it',
  async (t) => {
    const daemon = await startDaemon({ args: ['--data-listen', '127.0.0.1:0'] })
    t.teardown(() => daemon.close())
    t.not(daemon.url, daemon.dataUrl)
    const pipeId = await daemon.createPipe({ pipe_name: 'split' })
    t.equal((await daemon.ingest(pipeId, { a: 1 })).records_count, 1)
    const headers = { authorization: `Bearer ${daemon.apiKey}`, 'content-type': 'application/json' }
    t.equal((await call('GET', `${daemon.dataUrl}/v1/pipes`, headers)).status, 404)
    t.equal((await call('POST', `${daemon.url}/v1/ingest/${pipeId}`, headers, '{}')).status, 404)
    t.equal((await call('GET', `${daemon.dataUrl}/v1/health`, {})).status, 200)
    t.equal((await call('GET', `${daemon.url}/v1/health`, {})).status, 200)
  },
)

t.test('SIGHUP reads the settings again, for every thread; a wrong file changes nothing', async (t) => {
  const file = path.join(t.testdir(), 'pipectl.toml')
  writeFileSync(file, '[log]\nlevel = "info"\n')
  const daemon = await startDaemon({ args: ['--config', file] })
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const pipeId = await daemon.createPipe({ pipe_name: 'logged' })
  await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url },
  })
  const delivered = async () => {
    const before = sink.deliveries.length
    await daemon.ingest(pipeId, { a: 1 })
    await until('it is delivered', () => sink.deliveries.length > before)
  }
  // The delivery thread logs what went well at level debug.
  const isLogged = () =>
    daemon.log.some((line) => line.msg === 'delivery.attempted' && line.level === 'debug')
  await delivered()
  t.notOk(isLogged(), 'negative control: not at level info')

  writeFileSync(file, '[log]\nlevel = "debug"\n')
  daemon.signal('SIGHUP')
  await until('the delivery thread logs at level debug', async () => {
    await delivered()
    return isLogged()
  })
  writeFileSync(file, '[log]\nlevel = "loud"\n')
  daemon.signal('SIGHUP')
  await until('the wrong file is refused', () =>
    daemon.log.some(
      (line) => line.msg === 'daemon.reload_failed' && String(line.reason).includes('log.level'),
    ),
  )
  t.equal((await daemon.api('GET', '/v1/health')).status, 200)
})

t.test(
  'serve --init without a terminal: the first key is in a file of its user alone, not in the output',
  async (t) => {
    const dir = dataDir(t)
    const keyFile = path.join(dir, 'first-key')
    const run = async () => {
      const args = ['serve', '--init', '--data-dir', dir, '--listen', '127.0.0.1:0']
      const env = cleanEnv({ PIPECTL_METRICS_LISTEN: 'off', PIPECTL_LOG_FORMAT: 'json' })
      const child = spawn(process.execPath, [binary, ...args], { env })
      let printed = ''
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          printed += text
        })
      await until('the daemon is ready', () => printed.includes('daemon.ready'))
      const url = /"url":"([^"]+)"/.exec(printed)?.[1] ?? ''
      const key = existsSync(keyFile) ? readFileSync(keyFile, 'utf8').trim() : null
      const pipes = key && (await call('GET', `${url}/v1/pipes`, { authorization: `Bearer ${key}` }))
      child.kill('SIGINT')
      t.equal(await new Promise((resolve) => child.once('exit', resolve)), 0)
      return { printed, key, pipes }
    }
    const first = await run()
    t.notMatch(first.printed, /ppl1_/, 'no key where a journal keeps it')
    t.notMatch(first.printed, /setup#/, 'nor the setup link')
    const linkFile = path.join(dir, 'first-link')
    t.ok(first.printed.includes(linkFile))
    t.match(readFileSync(linkFile, 'utf8'), /^http:\/\/127\.0\.0\.1:\d+\/dashboard\/setup#[\w-]{43}\n$/)
    t.equal(statSync(linkFile).mode & 0o777, 0o600)
    t.ok(first.printed.includes(keyFile), 'but where it is')
    t.match(first.key, /^ppl1_[0-9A-Za-z]{38}$/)
    t.equal(statSync(keyFile).mode & 0o777, 0o600)
    t.match(first.pipes, { status: 200 })
    rmSync(keyFile)
    const second = await run()
    t.notMatch(second.printed, /first-key/, 'once')
    t.equal(second.key, null)
  },
)

t.test('serve --init on a terminal shows the first key and keeps no file of it', async (t) => {
  const dir = dataDir(t)
  const args = [binary, 'serve', '--init', '--data-dir', dir, '--listen', '127.0.0.1:0']
  const onTerminal = 'import pty, sys; pty.spawn(sys.argv[1:])'
  const child = spawn(programFile('python3'), ['-c', onTerminal, process.execPath, ...args], {
    env: cleanEnv({ PIPECTL_METRICS_LISTEN: 'off', PIPECTL_LOG_FORMAT: 'json' }),
  })
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  await until('the daemon is ready', () => shown.includes('daemon.ready'))
  // Ctrl-C.
  child.stdin.write('\x03')
  await new Promise((resolve) => child.once('exit', resolve))
  t.match(shown, /API key\s+ppl1_[0-9A-Za-z]{38}/)
  t.match(shown, /Dashboard\s+http:\S+\/dashboard\/setup#[\w-]{43}/)
  t.notOk(existsSync(path.join(dir, 'first-key')))
  t.notOk(existsSync(path.join(dir, 'first-link')))
})

t.test('a sealing key that is not the one ends with 78 and changes nothing', async (t) => {
  const dir = dataDir(t)
  await pipectl(['init', '--data-dir', dir])
  writeFileSync(path.join(dir, 'sealing.key'), Buffer.alloc(32, 7).toString('base64'), { mode: 0o600 })
  const ran = await pipectl(['serve', '--data-dir', dir, '--listen', '127.0.0.1:0'])
  t.equal(ran.code, 78)
  t.match(ran.stderr, oneError)
  t.match(ran.stderr, /key/)
})

t.test('an address is taken by something that is no pipectl: 75 too', async (t) => {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const dir = dataDir(t)
  await pipectl(['init', '--data-dir', dir])
  const { port } = server.address() as net.AddressInfo
  const ran = await pipectl(['serve', '--data-dir', dir, '--listen', `127.0.0.1:${port}`], {
    PIPECTL_METRICS_LISTEN: 'off',
  })
  t.equal(ran.code, 75)
  t.match(ran.stderr, oneError)
})
