/** The daemon's settings as command-line flags: made from the settings table, so that they cannot differ from it. */
import type { Command } from 'commander'
import { type LoadedSettings, loadSettings } from '../config.ts'
import { type SettingDefinition, type SettingKey, settingDefinitions } from '../settings.ts'

const withFlags = (settingDefinitions as readonly SettingDefinition[]).filter((one) => one.flag !== undefined)

/** Adds `--config` and a flag for each of the given settings (all that have one, if none are named). */
export function addSettingFlags(command: Command, only?: readonly SettingKey[]): Command {
  command.option('-c, --config <file>', 'TOML file with settings (PIPECTL_CONFIG)')
  for (const one of withFlags) {
    if (only === undefined || only.includes(one.key as SettingKey)) {
      command.option(
        `${one.flag} <value>`,
        `${one.doc} (${one.env}${one.fallback === null ? '' : `; default ${one.fallback}`})`,
      )
    }
  }
  return command
}

/** Settings from a command's parsed options, the environment and the file. Throws ConfigError. */
export function settingsFrom(options: Record<string, unknown>, env: NodeJS.ProcessEnv): LoadedSettings {
  const flags: Partial<Record<SettingKey, string>> = {}
  for (const one of withFlags) {
    const value = options[camelCase(one.flag ?? '')]
    if (typeof value === 'string') flags[one.key as SettingKey] = value
  }
  const file = typeof options.config === 'string' ? options.config : undefined
  return loadSettings({ flags, env, file })
}

function camelCase(flag: string): string {
  return flag.replace(/^--/, '').replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
