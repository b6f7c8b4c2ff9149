/** The proxies of examples/proxies, as they stand there but for ports and files, before a daemon. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { TestAuthority } from '../support/certificates.ts'
import { startDaemon } from '../support/daemon.ts'
import { freePort } from '../support/free-port.ts'
import { until } from '../support/until.ts'

const authority = new TestAuthority()
const pair = authority.issue()
const daemon = await startDaemon({ env: { PIPECTL_TRUSTED_PROXIES: '127.0.0.1' } })
const examples = new URL('../../examples/proxies/', import.meta.url).pathname
const environment = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
t.teardown(async () => {
  await daemon.close()
  authority.close()
})

interface Reply {
  status: number
  text: string
}

for (const [name, file, command] of [
  ['Caddy', 'Caddyfile', (config: string) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', config]],
  [
    'nginx',
    'nginx.conf',
    (config: string) => [
      'nginx',
      '-c',
      config,
      '-p',
      path.dirname(config),
      '-g',
      'daemon off; pid nginx.pid;',
    ],
  ],
  ['HAProxy', 'haproxy.cfg', (config: string) => ['haproxy', '-db', '-f', config]],
] as const) {
  t.test(name, async (t) => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-proxy-'))
    const port = await freePort()
    const at = (one: string) => path.join(directory, one)
    writeFileSync(at('cert.pem'), pair.certificate)
    writeFileSync(at('key.pem'), pair.key)
    writeFileSync(at('both.pem'), pair.certificate + pair.key)
    const config = readFileSync(path.join(examples, file), 'utf8')
      .replaceAll('8443', String(port))
      .replaceAll('127.0.0.1:8080', new URL(daemon.url).host)
      .replace(/(?<=\s)(cert|key|both)\.pem/g, (one) => at(one))
    writeFileSync(at(file), config)
    const [program = '', ...args] = command(at(file))
    const child = spawn(program, args, {
      cwd: directory,
      env: { ...environment, HOME: directory, XDG_DATA_HOME: directory, XDG_CONFIG_HOME: directory },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text) => {
      said += text
    })
    const ended = new Promise((resolve) => child.once('close', resolve))
    t.teardown(async () => {
      // Caddy would wait half a minute for open connections to end; it has no children that would stay.
      child.kill(program === 'caddy' ? 'SIGKILL' : 'SIGTERM')
      await ended
      rmSync(directory, { recursive: true, force: true })
    })
    const call = (method: string, url: string, body?: string, headers: Record<string, string> = {}) =>
      new Promise<Reply>((resolve, reject) => {
        const request = https.request(`https://localhost:${port}${url}`, {
          ...{ method, ca: authority.ca, agent: false, family: 4, localAddress: '127.0.0.3' },
          headers: {
            authorization: `Bearer ${daemon.apiKey}`,
            'content-type': 'application/json',
            ...headers,
          },
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
          response
            .once('end', () => resolve({ status: response.statusCode ?? 0, text }))
            .on('error', () => {})
        })
        request.end(body)
      })
    await until(`${name} serves: ${said}`, async () => (await call('GET', '/v1/health')).status === 200, {
      timeoutMs: 30_000,
    })
    const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ip: true })
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
    const large = await call(
      'POST',
      `/v1/ingest/${pipeId}`,
      JSON.stringify({ a: 'x'.repeat(11 << 20) }),
    ).catch(() => null)
    t.ok(large === null || large.status === 413, 'a body over the limit')
  })
}
