import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { loadSettings } from '../../src/settings/config.ts'
import { type SettingDefinition, settingDefinitions } from '../../src/settings/settings.ts'

const example = readFileSync(new URL('../../config/pipectl.toml', import.meta.url), 'utf8')

t.test(
  'the example file documents every setting: its line, its variable, its flag, its default',
  async (t) => {
    for (const one of settingDefinitions as readonly SettingDefinition[]) {
      const names = [
        one.env,
        ...(one.flag === undefined ? [] : [one.flag]),
        ...(one.reloads ? ['reloaded on SIGHUP'] : []),
      ]
      const lines = example.split('\n')
      const at = lines.indexOf(`# ${one.doc}  [${names.join(', ')}]`)
      t.not(at, -1, `${one.key} is documented as the settings table says`)
      const name = one.key.split('.').pop()
      const notSet = lines[at + 1] === '# Not set by default.'
      t.equal(notSet, one.fallback === null, `${one.key} says whether it has a default`)
      t.ok(lines[at + (notSet ? 2 : 1)]?.startsWith(`#${name} = `), `${one.key} has its line`)
    }
  },
)

t.test('with every default uncommented the file changes nothing', async (t) => {
  const withoutUnset = example.replace(/# Not set by default\.\n.*\n/g, '')
  const uncommented = withoutUnset.replace(/^#(?=[a-z_]+ = )/gm, '')
  const file = `${t.testdir()}/pipectl.toml`
  writeFileSync(file, uncommented)
  const { settings, origins } = loadSettings({ file })
  t.same(settings, loadSettings({}).settings)
  const fromFile = Object.values(origins).filter((origin) => origin === 'file')
  const withDefault = (settingDefinitions as readonly SettingDefinition[]).filter(
    (one) => one.fallback !== null,
  )
  t.equal(fromFile.length, withDefault.length, 'every setting with a default was read from the file')
})
