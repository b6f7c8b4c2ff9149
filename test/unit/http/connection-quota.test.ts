/** Connections that count together, and the state that is kept about them. */
import pino from 'pino'
import t from 'tap'
import { connectionQuota } from '../../../src/api/http/connection-quota.ts'

const ipv4 = (...bytes: number[]) => Uint8Array.from(bytes)
const ipv6 = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'))
const quotaOf = (perAddress: number) =>
  connectionQuota({ perAddress, isTrusted: (peer) => peer[0] === 10, log: pino({ level: 'silent' }) })

t.test('a /64 network is one address, and a mapped IPv4 address is itself', async (t) => {
  const quota = quotaOf(1)
  t.ok(quota.take(ipv6('20010db8000000010000000000000001')))
  t.equal(quota.take(ipv6('20010db8000000010000000000000002')), null, 'the same network')
  t.ok(quota.take(ipv6('20010db8000000020000000000000001')), 'another')
  t.ok(quota.take(ipv4(192, 0, 2, 1)))
  t.equal(quota.take(ipv6('00000000000000000000ffffc0000201')), null)
})

t.test('what has closed counts no longer', async (t) => {
  const quota = quotaOf(2)
  const first = quota.take(ipv4(192, 0, 2, 1))
  t.ok(quota.take(ipv4(192, 0, 2, 1)))
  t.equal(quota.take(ipv4(192, 0, 2, 1)), null)
  first?.()
  t.ok(quota.take(ipv4(192, 0, 2, 1)))
  t.equal(quota.take(ipv4(192, 0, 2, 1)), null)
})

t.test('trusted proxies are not counted, and with 0 nobody is', async (t) => {
  for (const [quota, peer] of [
    [quotaOf(1), ipv4(10, 0, 0, 1)],
    [quotaOf(0), ipv4(192, 0, 2, 1)],
  ] as const)
    for (let i = 0; i < 3; i++) t.ok(quota.take(peer))
})
