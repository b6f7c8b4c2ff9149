/** `tls_ca`, `tls_cert` and `tls_key` of destinations, of whatever type: what cannot be used is found when it is stored. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { openssl, TestAuthority } from '../support/certificates.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { checkedApi, created, databaseDestination, errorsIn } from './management-client.ts'

const daemon = await startDaemon()
const authority = new TestAuthority()
t.teardown(async () => {
  await daemon.close()
  authority.close()
})
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main' }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const { ca } = authority
const ours = authority.issue()
const other = authority.issue()
const expired = authority.issue({ days: -1 })
const encrypted = openssl('pkey', '-in', ours.keyFile, '-aes256', '-passout', 'pass:x')
const traditional = openssl('ec', '-in', ours.keyFile, '-aes256', '-passout', 'pass:x')
const pair = { tls_cert: ours.certificate, tls_key: ours.key }
const damaged = ours.certificate.replace(/\n\w{10}/, '\nAAAAAAAAAA')

const types: Record<string, { destination_type: string; destination_config: object }> = {
  database: {
    ...databaseDestination,
    destination_config: { ...databaseDestination.destination_config, tls_verify: 'full' },
  },
  nats: {
    destination_type: 'destination_nats',
    destination_config: { url: 'tls://nats.example.test', subject: 'events', token: 'secret-token' },
  },
}

for (const [name, body] of Object.entries(types)) {
  const withConfig = (config: object) => ({
    ...body,
    destination_config: { ...body.destination_config, ...config },
  })

  t.test(`${name}: what cannot be used is named with its key, and never repeated`, async (t) => {
    const cases: [Record<string, unknown>, key: string, message: RegExp][] = [
      [{ tls_ca: 'no PEM' }, 'tls_ca', /must be one or more certificates in PEM/],
      [{ tls_ca: ours.key }, 'tls_ca', /must be one or more certificates in PEM/],
      [{ tls_ca: ca + damaged }, 'tls_ca', /must be one or more certificates in PEM/],
      [{ tls_cert: ours.certificate }, 'tls_key', /is required with tls_cert/],
      [{ tls_key: ours.key }, 'tls_cert', /is required with tls_key/],
      [{ ...pair, tls_cert: ours.key }, 'tls_cert', /must be one or more certificates/],
      [{ ...pair, tls_cert: damaged }, 'tls_cert', /must be one or more certificates/],
      [{ ...pair, tls_key: encrypted }, 'tls_key', /must not be encrypted/],
      [{ ...pair, tls_key: traditional }, 'tls_key', /must not be encrypted/],
      [{ ...pair, tls_key: 'x' }, 'tls_key', /must be a private key in PEM/],
      [{ ...pair, tls_key: other.key }, 'tls_key', /must be the key of the first certificate/],
      [
        { ...pair, tls_cert: ca + ours.certificate },
        'tls_cert',
        /must begin with the certificate of tls_key/,
      ],
      [
        { tls_cert: expired.certificate, tls_key: expired.key },
        'tls_cert',
        /expired on \d{4}-\d\d-\d\d: use a valid one/,
      ],
    ]
    for (const [config, key, message] of cases) {
      const answer = await api('POST', base, withConfig(config))
      t.same(Object.keys(errorsIn(answer)), [`destination_config.${key}`])
      t.match(errorsIn(answer)[`destination_config.${key}`], message)
      for (const text of Object.values(config))
        for (const line of String(text)
          .split('\n')
          .filter((one) => one.length > 20 && !one.startsWith('-')))
          t.notOk(answer.text.includes(line))
    }
  })

  t.test(`${name}: a chain, and PEM whose line breaks a form has lost, are taken`, async (t) => {
    const chain = { tls_ca: ca, tls_cert: ours.certificate + ca, tls_key: ours.key }
    const inOneLine = Object.fromEntries(
      Object.entries(chain).map(([key, text]) => [key, text.replaceAll('\n', ' ')]),
    )
    for (const config of [chain, inOneLine])
      t.equal((await api('POST', base, withConfig(config))).status, 201)
  })

  t.test(`${name}: a stored secret does not go to a server that is verified less`, async (t) => {
    const id = await created(api, base, withConfig({ tls_ca: ca, ...pair }), 'destination_id')
    const change = async (config: object) =>
      Object.keys(errorsIn(await api('PATCH', `${base}/${id}`, { destination_config: config })))
    const secret = name === 'nats' ? 'token' : 'password'
    const wanted = [`destination_config.${secret}`, 'destination_config.tls_key'].sort()
    const unverified = name === 'nats' ? false : 'none'
    t.same((await change({ tls_verify: unverified, tls_ca: null })).sort(), wanted)
    t.same((await change({ tls_ca: other.certificate })).sort(), wanted)
    t.same((await change({ tls_ca: null })).sort(), wanted)
    const given = { tls_ca: null, [secret]: 'given-again', ...pair }
    t.equal((await api('PATCH', `${base}/${id}`, { destination_config: given })).status, 200)
    t.equal((await api('PATCH', `${base}/${id}`, { destination_config: { timeout_ms: null } })).status, 200)
  })
}

t.test('a stored certificate that has expired meanwhile stands in the way of no other change', async (t) => {
  const clock = fakeClock(t)
  const later = await startDaemon({ env: clock.env })
  t.teardown(() => later.close())
  const call = checkedApi(later)
  const at = `/v1/pipes/${await created(call, '/v1/pipes', { pipe_name: 'kept' }, 'pipe_id')}/destinations`
  const made: [id: string, change: object][] = []
  for (const [name, body] of Object.entries(types)) {
    const destination_config = { ...body.destination_config, ...pair }
    const id = await created(call, at, { ...body, destination_config }, 'destination_id')
    made.push([id, name === 'nats' ? { subject: 'others' } : { table: 'others' }])
  }
  clock.set(25 * 86_400)
  for (const [id, change] of made) {
    const patch = (destination_config: object) => call('PATCH', `${at}/${id}`, { destination_config })
    t.equal((await patch(change)).status, 200)
    t.equal((await patch({ ...change, tls_cert: ours.certificate, tls_key: '[redacted]' })).status, 200)
    t.equal((await patch({ tls_cert: null, tls_key: null })).status, 200)
    t.match(errorsIn(await patch(pair))['destination_config.tls_cert'], /expired on/, 'given again')
  }
})

t.test('export has a variable for the key, and apply keeps what is stored', async (t) => {
  const home = makeHome()
  t.teardown(() => removeHome(home))
  const env = cliEnv(daemon, home)
  const kept = await created(api, '/v1/pipes', { pipe_name: 'kept' }, 'pipe_id')
  for (const body of Object.values(types)) {
    const destination_config = { ...body.destination_config, tls_ca: ca, ...pair }
    await created(api, `/v1/pipes/${kept}/destinations`, { ...body, destination_config }, 'destination_id')
  }
  await api('DELETE', `/v1/pipes/${pipeId}`)
  const exported = await runCli(['export'], { env })
  t.match(exported.stdout, /tls_key: \$\{KEPT_DATABASE_TLS_KEY\}/)
  t.match(exported.stdout, /tls_key: \$\{KEPT_NATS_TLS_KEY\}/)
  t.match(exported.stdout, ca.split('\n')[1], 'certificates are no secret')
  t.notMatch(exported.stdout, /PRIVATE KEY|redacted/)
  const file = path.join(home, 'pipectl.yaml')
  writeFileSync(file, exported.stdout)
  t.match(await runCli(['apply', '-f', file], { env }), {
    code: 0,
    stdout: '',
    stderr: /Nothing to change/,
  })
  const secrets = {
    ...{ KEPT_DATABASE_PASSWORD: 'again', KEPT_NATS_TOKEN: 'again' },
    ...{ KEPT_DATABASE_TLS_KEY: ours.key, KEPT_NATS_TLS_KEY: other.key },
  }
  const wrong = await runCli(['apply', '-f', file, '--update-secrets'], { env: { ...env, ...secrets } })
  t.match(wrong.stderr, /tls_key.*must be the key of the first certificate/)
  t.notMatch(wrong.stdout + wrong.stderr, other.key.split('\n')[1])
})
