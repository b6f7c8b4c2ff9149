import { writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import net from 'node:net'
import path from 'node:path'
import t from 'tap'
import { findTarget } from '../../../src/apps/cli/connection.ts'
import { type Profile, writeProfiles } from '../../../src/apps/cli/profile-store.ts'
import { homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'

/** A server that is not the profile's own: whatever it is sent, it must not be the profile's key. */
const seen: string[] = []
const other = http.createServer((request, response) => {
  seen.push(`${request.url} ${request.headers.authorization ?? 'no key'}`)
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end('{"error":"unauthorized","message":"Missing or invalid API key."}')
})
await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
const otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
const home = makeHome()
const env = homeEnv(home)
const profile = { url: 'https://pipes.example.com', api_key: 'ppl1_profile' }
await writeProfiles(env, {
  current: 'prod',
  profiles: new Map<string, Profile>([
    ['prod', profile],
    ['here', { url: otherUrl, api_key: 'ppl1_here' }],
    ['split', { ...profile, data_url: 'https://data.example.com' }],
  ]),
})
t.teardown(() => {
  other.close()
  removeHome(home)
})

t.test('an explicit --profile gives address and key, whatever the environment holds', async (t) => {
  const variables = { ...env, PIPECTL_API_KEY: 'ppl1_env', PIPECTL_URL: otherUrl, PIPECTL_DATA_URL: otherUrl }
  t.match(await findTarget({ profile: 'prod' }, variables), {
    url: profile.url,
    dataUrl: profile.url,
    apiKey: 'ppl1_profile',
    apiKeyOrigin: 'profile',
  })
  t.match(await findTarget({}, variables), { url: otherUrl, apiKey: 'ppl1_env' }, 'else the environment wins')
})

t.test('the key of a profile goes to the daemon of that profile alone', async (t) => {
  const foreign = [
    [{ server: otherUrl }, env],
    [{ profile: 'prod', server: otherUrl }, env],
    [{}, { ...env, PIPECTL_URL: otherUrl }],
    [{ dataServer: otherUrl }, env],
    [{ dataServer: 'http://pipes.example.com' }, env],
  ] as const
  for (const [options, variables] of foreign) {
    const target = await findTarget(options, variables)
    t.equal(target.apiKey, null, JSON.stringify(options))
    t.match(target.keyWithheld, /the key of profile prod belongs to https:\/\/pipes\.example\.com/)
  }
  const own = [
    [{ server: 'https://pipes.example.com/' }, env],
    [{ dataServer: 'https://pipes.example.com:8443' }, env],
    [{ profile: 'split', dataServer: 'https://data.example.com' }, env],
    [{}, { ...env, PIPECTL_DATA_URL: otherUrl }],
  ] as const
  for (const [options, variables] of own) {
    t.equal((await findTarget(options, variables)).apiKey, 'ppl1_profile', JSON.stringify(options))
  }
})

t.test('the key of the environment goes to the daemon of the environment, if that names one', async (t) => {
  const key = { ...env, PIPECTL_API_KEY: 'ppl1_env' }
  t.equal((await findTarget({ server: otherUrl }, key)).apiKey, 'ppl1_env')
  const named = { ...key, PIPECTL_URL: 'https://pipes.example.com' }
  t.equal((await findTarget({ server: otherUrl }, named)).apiKey, null)
})

t.test('a command that has no key for an address says why, and sends nothing', async (t) => {
  const ran = await runCli(['pipes', 'list', '--server', otherUrl], { env })
  t.equal(ran.code, 4)
  t.match(ran.stderr, /no API key for http:.*the key of profile prod belongs to https:\/\/pipes/)
  t.same(seen, [])
})

t.test('https to a port that does not speak TLS: the advice is http', async (t) => {
  const mute = net.createServer((socket) => socket.once('data', () => socket.destroy()))
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
  t.teardown(() => mute.close())
  const closing = `https://127.0.0.1:${(mute.address() as AddressInfo).port}`
  for (const server of [closing, otherUrl.replace('http:', 'https:')]) {
    const ran = await runCli(['pipes', 'list', '--server', server], {
      env: { ...env, PIPECTL_API_KEY: 'ppl1_env' },
    })
    t.match(ran, { code: 7, stderr: /speak TLS.*\n {2}next: .*use http:\/\// })
  }
  const plain = closing.replace('https:', 'http:')
  const ran = await runCli(['pipes', 'list', '--server', plain], {
    env: { ...env, PIPECTL_API_KEY: 'ppl1_env' },
  })
  t.notMatch(ran.stderr, /TLS/)
})

t.test('a 401 says where the key came from', async (t) => {
  const file = path.join(home, 'key.txt')
  writeFileSync(file, 'ppl1_file')
  const [fromProfile, fromVariable, fromFile] = await Promise.all([
    runCli(['pipes', 'list', '--profile', 'here'], { env }),
    runCli(['pipes', 'list', '--server', otherUrl], { env: { ...env, PIPECTL_API_KEY: 'ppl1_env' } }),
    runCli(['pipes', 'list', '--server', otherUrl, '--api-key-file', file], { env }),
  ])
  t.match(fromProfile, { code: 4, stderr: /unauthorized.*; the key came from profile here\n/ })
  t.match(fromVariable.stderr, /the key came from PIPECTL_API_KEY\n/)
  t.match(fromFile.stderr, /the key came from --api-key-file .*key\.txt\n/)
})
