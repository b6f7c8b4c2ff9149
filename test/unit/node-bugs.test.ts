import t from 'tap'
import { endOfSupport, missingAddon, requireSoundSqliteAddon } from '../../src/platform/node-bugs.ts'

t.test(
  'better-sqlite3 compiled against headers of Node.js 24.19 and newer: exit 78, and what to do',
  async (t) => {
    // As the linker leaves them in the file.
    const bad = () => Buffer.from('\0_ZN4node28RemoveEnvironmentCleanupHookEPN2v87IsolateEPFvPvES3_\0')
    const good = () => Buffer.from('\0_ZN4node25AddEnvironmentCleanupHookEPN2v87IsolateEPFvPvES3_\0')
    for (const version of ['24.18.0', '24.21.0', '26.0.0'])
      t.throws(() => requireSoundSqliteAddon(version, bad), {
        name: 'ConfigError',
        message: /Compile it against the headers of Node\.js 24\.18/,
      })
    requireSoundSqliteAddon('24.21.0', good)
    requireSoundSqliteAddon('22.23.3', bad)
    requireSoundSqliteAddon('24.21.0', () => null)
  },
)

t.test('what is installed here works here', async () => {
  requireSoundSqliteAddon()
  // The addon is where it is looked for: it exports its own name.
  requireSoundSqliteAddon('24.21.0')
})

t.test('a version that gets no security fixes any more is known by the day', async (t) => {
  const at = (day: string) => Date.parse(`${day}T12:00:00Z`)
  t.equal(endOfSupport('20.20.2', at('2026-04-30')), null)
  t.equal(endOfSupport('20.20.2', at('2026-05-01')), '2026-04-30')
  t.equal(endOfSupport('24.21.0', at('2026-11-23')), null)
  t.equal(endOfSupport('99.0.0', at('2099-01-01')), null)
})

t.test(
  'an addon that is absent or does not load: the platform, what is supported, and what to do',
  async (t) => {
    const absent = Object.assign(
      new Error('Could not locate the bindings file.\n → build/better_sqlite3.node'),
      {
        tries: [],
      },
    )
    const unloadable = Object.assign(new Error('/lib/better_sqlite3.node: GLIBC_2.34 not found\nmore'), {
      code: 'ERR_DLOPEN_FAILED',
    })
    t.match(missingAddon(absent), {
      message: `no native build of SQLite for this platform: ${process.platform} ${process.arch}`,
      hint: /Linux x64 and arm64 with glibc 2\.34.*from source: docs\/install\.md#platforms/,
    })
    t.match(missingAddon(unloadable)?.message, /\(\/lib\/better_sqlite3\.node: GLIBC_2\.34 not found\)$/)
    const other = Object.assign(new Error('/lib/uws.node: no'), { code: 'ERR_DLOPEN_FAILED' })
    for (const error of [other, new Error('better_sqlite3.node'), 'text']) t.equal(missingAddon(error), null)
  },
)
