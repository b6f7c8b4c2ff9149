/** A daemon with a certificate of a test authority, and what calls it over TLS. */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import https from 'node:https'
import type net from 'node:net'
import path from 'node:path'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { type IssuedCertificate, TestAuthority } from '../support/certificates.ts'
import { copyFreshDataDir, type DaemonOptions, makeDataDir, TestDaemon } from '../support/daemon.ts'

export const authority = new TestAuthority()
const { ca } = authority
export const first = authority.issue({ days: 20 })
t.teardown(() => authority.close())

interface Reply {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  serial: string
}

interface CallOptions {
  key?: string
  body?: string
  headers?: Record<string, string>
  agent?: https.Agent
}

export function call(
  method: string,
  url: string,
  { key, body, headers, agent }: CallOptions = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const all = {
      ...(key && { authorization: `Bearer ${key}` }),
      'content-type': 'application/json',
      ...headers,
    }
    const request = https.request(url, { method, ca, headers: all, agent: agent ?? false })
    request.once('error', reject).once('response', (response) => {
      const { serialNumber: serial } = (response.socket as tls.TLSSocket).getPeerCertificate()
      let text = ''
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece
      })
      response.once('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, text, serial }),
      )
    })
    request.end(body)
  })
}

export interface Served {
  daemon: TestDaemon
  key: string
}

export async function serve(
  t: Test,
  env: Record<string, string>,
  options: DaemonOptions = {},
): Promise<Served> {
  const dataDir = makeDataDir()
  const { api_key: key } = await copyFreshDataDir(dataDir)
  const daemon = new TestDaemon({ dataDir, ...options, env })
  t.teardown(async () => {
    await daemon.close()
    rmSync(path.dirname(dataDir), { recursive: true, force: true })
  })
  await daemon.start()
  return { daemon, key }
}

export const pairOf = ({ certFile, keyFile }: IssuedCertificate) => ({
  PIPECTL_TLS_CERT_FILE: certFile,
  PIPECTL_TLS_KEY_FILE: keyFile,
})

export async function pipeOf({ daemon, key }: Served): Promise<string> {
  const made = await call('POST', `${daemon.url}/v1/pipes`, { key, body: '{"pipe_name":"secure"}' })
  return JSON.parse(made.text).pipe_id
}

export const portOf = (url: string) => Number(new URL(url).port)
export const connectTls = (url: string, options: tls.ConnectionOptions = {}) =>
  tls.connect({ host: '127.0.0.1', port: portOf(url), ca, ...options })
export const closed = (socket: net.Socket) =>
  new Promise<void>((resolve) => socket.on('error', () => {}).once('close', () => resolve()))
export const residentBytes = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
export const openSockets = (pid: number) => readdirSync(`/proc/${pid}/fd`).length
