/**
 * The proxies of examples/proxies, in several versions, with the configuration that is there except for ports and files, in front of a
 * daemon. With two daemons behind them, a daemon that stops costs no request.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { TestAuthority } from '../support/certificates.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { debianProgram } from '../support/debian-programs.ts'
import { freePort } from '../support/free-port.ts'
import { blocksOf } from '../support/guide-walker.ts'
import { until } from '../support/until.ts'
import type { ProductId } from './products.ts'
import { tried, versionIn } from './results.ts'

const authority = new TestAuthority()
const pair = authority.issue()
const trusting = { PIPECTL_TRUSTED_PROXIES: '127.0.0.1' }
const daemon = await startDaemon({ env: trusting })
/** On a port that stays the same when it is started again. */
const second = await startDaemon({ args: ['--listen', `127.0.0.1:${await freePort()}`] })
const examples = new URL('../../examples/proxies/', import.meta.url).pathname
const clusterGuide = readFileSync(new URL('../../docs/cluster.md', import.meta.url), 'utf8')
t.teardown(async () => {
  await daemon.close()
  await second.close()
  authority.close()
})

interface Reply {
  status: number
  text: string
}

interface Proxy {
  name: string
  /** Of the folder of examples. */
  file: string
  program: { packages: string[]; file: string }
  args(config: string): string[]
  version: string
  /** The configuration of the example, with both daemons behind the proxy and checks of their health. */
  balanced(config: string, hosts: readonly [string, string]): string
}

const hostOf = ({ url }: TestDaemon) => new URL(url).host

const proxies: readonly Proxy[] = [
  {
    name: 'caddy',
    file: 'Caddyfile',
    program: { packages: ['caddy'], file: 'usr/bin/caddy' },
    args: (config) => ['run', '--adapter', 'caddyfile', '--config', config],
    version: 'version',
    balanced: (config, [one, two]) =>
      config.replace(
        `reverse_proxy ${one} {`,
        `reverse_proxy ${one} ${two} {\nhealth_uri /v1/ready\nhealth_interval 1s\nlb_try_duration 5s`,
      ),
  },
  {
    name: 'nginx',
    file: 'nginx.conf',
    program: { packages: ['nginx'], file: 'usr/sbin/nginx' },
    args: (config) => [
      '-e',
      'stderr',
      '-c',
      config,
      '-p',
      path.dirname(config),
      '-g',
      'daemon off; pid nginx.pid;',
    ],
    version: '-v',
    // Without a license it learns that a server is down from the requests that fail.
    balanced: (config, [one, two]) =>
      config
        .replace(`proxy_pass http://${one};`, 'proxy_pass http://daemons;')
        .replace('http {', `http {\nupstream daemons { server ${one}; server ${two}; }`),
  },
  {
    name: 'haproxy',
    file: 'haproxy.cfg',
    program: { packages: ['haproxy'], file: 'usr/sbin/haproxy' },
    args: (config) => ['-db', '-f', config],
    version: '-v',
    // The backend of the guide, with two of its three nodes.
    balanced: (config, [one, two]) => {
      const backend =
        blocksOf(clusterGuide).find(({ text }) => text.startsWith('backend pipectl'))?.text ?? ''
      const nodes = backend.replace('10.0.0.11:8080', one).replace('10.0.0.12:8080', two)
      return (
        config.slice(0, config.lastIndexOf('backend pipectl')) + nodes.replace(/^ *server node-3.*\n?/m, '')
      )
    },
  },
]

interface Running {
  call(method: string, url: string, body?: string, headers?: Record<string, string>): Promise<Reply>
}

/** nginx keeps bodies in folders that only its installed package has. */
const nginxFolders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  .map((name) => `${name}_temp_path ${name};`)
  .join(' ')

async function startProxy(
  t: Test,
  program: string,
  { name, file, args }: Proxy,
  change: (config: string) => string = (config) => config,
): Promise<Running> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-proxy-'))
  const port = await freePort()
  const at = (one: string) => path.join(directory, one)
  writeFileSync(at('cert.pem'), pair.certificate)
  writeFileSync(at('key.pem'), pair.key)
  writeFileSync(at('both.pem'), pair.certificate + pair.key)
  const config = readFileSync(path.join(examples, file), 'utf8')
    .replaceAll('8443', String(port))
    .replaceAll('127.0.0.1:8080', hostOf(daemon))
    .replace(/(?<=\s)(cert|key|both)\.pem/g, (one) => at(one))
    .replace('access_log off;', `access_log off; ${nginxFolders}`)
  const changed = change(config)
  writeFileSync(at(file), changed)
  const child = spawn(program, args(at(file)), {
    cwd: directory,
    env: { ...process.env, HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  const ended = new Promise((resolve) => child.once('close', resolve))
  t.teardown(async () => {
    // Caddy would wait half a minute for open connections to end; it has no children that would stay.
    child.kill(name === 'caddy' ? 'SIGKILL' : 'SIGTERM')
    await ended
    rmSync(directory, { recursive: true, force: true })
  })
  const call: Running['call'] = (method, url, body, headers = {}) =>
    send({ port, method, url, body, headers })
  await until(
    `${name} serves`,
    async () => {
      if (child.exitCode !== null) throw new Error(`${name} ended: ${log}`)
      return (await call('GET', '/v1/health')).status === 200
    },
    { timeoutMs: 60_000 },
  )
  return { call }
}

interface Call {
  port: number
  method: string
  url: string
  body: string | undefined
  headers: Record<string, string>
}

function send({ port, method, url, body, headers }: Call): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = https.request(`https://localhost:${port}${url}`, {
      ...{ method, ca: authority.ca, agent: false, family: 4, localAddress: '127.0.0.3' },
      headers: { authorization: `Bearer ${daemon.apiKey}`, 'content-type': 'application/json', ...headers },
    })
    request.once('error', reject).once('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece
        // The first event of a stream is enough.
        if (url.endsWith('/tail') && text.includes('"tailed"')) {
          resolve({ status: response.statusCode ?? 0, text })
          request.destroy()
        }
      })
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text })).on('error', () => {})
    })
    request.end(body)
  })
}

async function passesEverything(t: Test, { call }: Running, pipe_name: string): Promise<void> {
  const pipeId = await daemon.createPipe({ pipe_name, pipe_add_ingest_ip: true })
  const destinationId = await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_pull', destination_config: {} },
  })
  const pull = call('GET', `/v1/pull/${destinationId}?wait=20`)
  const spoofed = { 'x-forwarded-for': '203.0.113.9' }
  const taken = await call('POST', `/v1/ingest/${pipeId}`, '{"a":1}', spoofed)
  t.equal(taken.status, 202, taken.text)
  const pulled = await pull
  t.match(pulled, { status: 200, text: /"a":1/ })
  t.notMatch(pulled.text, '203.0.113.9')
  t.match(pulled.text, '"ingest_ip":"127.0.0.3"')
  const tail = call('GET', `/v1/pipes/${pipeId}/tail`)
  let isTailed = false
  void tail.then(() => {
    isTailed = true
  })
  await until('the event comes through', async () => {
    await call('POST', `/v1/ingest/${pipeId}`, '{"tailed":1}')
    return isTailed
  })
  const body = JSON.stringify({ a: 'x'.repeat(11 << 20) })
  const large = await call('POST', `/v1/ingest/${pipeId}`, body).catch(() => null)
  t.ok(large === null || large.status === 413, 'a body over the limit')
}

/** The second daemon has a workspace and a key of its own: its response shows that it got a request. */
async function survivesAStop(t: Test, { call }: Running): Promise<void> {
  const own = { authorization: `Bearer ${second.apiKey}` }
  await until('the second daemon is used', async () => {
    t.equal((await call('GET', '/v1/ready')).status, 200)
    return (await call('GET', '/v1/pipes', undefined, own)).status === 200
  })
  await second.stop()
  try {
    await until(
      'requests reach the first daemon',
      async () => (await call('GET', '/v1/ready')).status === 200,
    )
    const replies = []
    for (let request = 0; request < 6; request += 1) replies.push((await call('GET', '/v1/ready')).status)
    t.same(
      replies,
      replies.map(() => 200),
    )
  } finally {
    await second.start()
  }
}

for (const release of ['trixie', 'sid'] as const)
  for (const proxy of proxies) {
    const id: ProductId = `${proxy.name as 'caddy' | 'nginx' | 'haproxy'}-${release}`
    await tried(t, id, async (t) => {
      const program = debianProgram(release, proxy.program)
      await t.test('one', async (t) => passesEverything(t, await startProxy(t, program, proxy), id))
      await t.test('two', async (t) => {
        const hosts = [hostOf(daemon), hostOf(second)] as const
        await survivesAStop(
          t,
          await startProxy(t, program, proxy, (config) => {
            const balanced = proxy.balanced(config, hosts)
            t.ok(hosts.every((host) => balanced.includes(host)))
            return balanced
          }),
        )
      })
      const { stdout, stderr } = spawnSync(program, [proxy.version], { encoding: 'utf8' })
      return versionIn(stdout + stderr)
    })
  }
