import { renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { openGeo } from '../../../src/ingest/geo.ts'
import { cityRecord, writeMmdb } from '../../support/mmdb.ts'
import { until } from '../../support/until.ts'

const berlin = cityRecord({
  country: 'DE',
  region: 'Land Berlin',
  city: 'Berlin',
  postal: '10115',
  latitude: 52.5,
  longitude: -13.25,
  accuracyRadiusKm: 20,
})
const networks = { '192.0.2.0/24': berlin, '198.51.100.0/25': cityRecord({ country: 'FR' }) }

/** A log whose event names can be looked at. */
function listeningLog() {
  const events: string[] = []
  const sink = new Writable({
    write: (line, _encoding, done) => {
      events.push(JSON.parse(String(line)).msg)
      done()
    },
  })
  return { log: pino({ level: 'info' }, sink), events }
}

t.test('geo: every dimension of a city record; numbers are numbers', async (t) => {
  const file = path.join(t.testdir(), 'city.mmdb')
  writeFileSync(file, writeMmdb({ ipVersion: 6, networks: { ...networks, '2001:db8::/32': berlin } }))
  const geo = await openGeo({ file, log: listeningLog().log })
  t.teardown(() => geo.close())
  const expected = {
    country: 'DE',
    region: 'Land Berlin',
    city: 'Berlin',
    postal: '10115',
    latitude: 52.5,
    longitude: -13.25,
    accuracyRadiusKm: 20,
  }
  t.match(geo.lookup('192.0.2.77'), expected)
  t.match(geo.lookup('2001:db8::1'), expected)
  t.strictSame(JSON.parse(JSON.stringify(geo.lookup('198.51.100.1'))), { country: 'FR' })
  t.equal(geo.lookup('198.51.100.200'), null)
  t.equal(geo.lookup('203.0.113.1'), null)
})

t.test('geo: an IPv6 address in an IPv4-only database is not known (trap of maxmind 5)', async (t) => {
  const file = path.join(t.testdir(), 'city.mmdb')
  writeFileSync(file, writeMmdb({ ipVersion: 4, networks: { '32.0.0.0/4': berlin, ...networks } }))
  const geo = await openGeo({ file, log: listeningLog().log })
  t.teardown(() => geo.close())
  t.match(geo.lookup('192.0.2.1'), { country: 'DE' })
  // 2001:… begins with the bits of 32.1.…: a reader that walks on finds Berlin there.
  t.match(geo.lookup('32.1.13.184'), { country: 'DE' })
  t.equal(geo.lookup('2001:db8::1'), null)
})

t.test('geo: no file configured, or none there, is skipped silently', async (t) => {
  t.equal((await openGeo({ file: null, log: listeningLog().log })).lookup('192.0.2.1'), null)
  const { log, events } = listeningLog()
  const missing = await openGeo({ file: path.join(t.testdir(), 'none.mmdb'), log })
  t.teardown(() => missing.close())
  t.equal(missing.lookup('192.0.2.1'), null)
  t.strictSame(events, ['geo.file_missing'])
})

t.test(
  'geo: a file that appears or is replaced is used without a restart; a broken one is not',
  async (t) => {
    const dir = t.testdir()
    const file = path.join(dir, 'city.mmdb')
    const { log, events } = listeningLog()
    const geo = await openGeo({ file, log, everyMs: 20 })
    t.teardown(() => geo.close())
    const put = (bytes: Buffer) => {
      writeFileSync(`${file}.new`, bytes)
      renameSync(`${file}.new`, file)
    }
    const country = () => geo.lookup('192.0.2.1')?.country

    put(writeMmdb({ ipVersion: 4, networks }))
    await until('the file that appeared is loaded', () => country() === 'DE')
    put(writeMmdb({ ipVersion: 6, networks: { '192.0.2.0/24': cityRecord({ country: 'JP' }) } }))
    await until('the file that was replaced is loaded', () => country() === 'JP')

    const unreadable = () => events.filter((event) => event === 'geo.file_unreadable').length
    const whole = writeMmdb({ ipVersion: 4, networks })
    const broken = [
      Buffer.from('not a database'),
      Buffer.alloc(0),
      whole.subarray(whole.length / 2),
      writeMmdb({ ipVersion: 4, databaseType: 'Test-ASN', networks }),
    ]
    for (const [index, bytes] of broken.entries()) {
      put(bytes)
      await until(`broken file ${index} is refused`, () => unreadable() === index + 1)
      t.equal(country(), 'JP', 'the one in use is kept')
    }
    rmSync(file)
    put(writeMmdb({ ipVersion: 4, networks }))
    await until('a good file after broken ones is loaded', () => country() === 'DE')
  },
)
