/**
 * `pipectl config show`: the settings of the daemon, the connection of the commands, and the source of each value.
 */
import type { Command } from 'commander'
import type { Settings } from '../../settings/settings.ts'
import { usageFailure } from '../client/failure.ts'
import { findTarget } from './connection.ts'
import { define, group } from './define.ts'
import { io } from './io.ts'
import { print } from './output.ts'

export function addConfigCommand(program: Command): void {
  const config = group(program, 'config', 'settings in effect')
  define<{ config?: string; origin?: boolean }>(config, {
    usage: 'show',
    summary: 'show every setting with its value; --origin: and where it comes from',
    help: 'Settings come from flags, then the environment, then the file, then the default. Secrets are not shown.',
    examples: [
      'pipectl config show --origin',
      'pipectl config show --config /etc/pipectl/pipectl.toml -o yaml',
    ],
    output: true,
    daemon: true,
    options: (command) =>
      command
        .option('-c, --config <file>', 'TOML file with settings of the daemon (PIPECTL_CONFIG)')
        .option('--origin', 'show where each value comes from'),
    action: async (_, options) => {
      const { formatAddress, loadSettings, shownSetting } = await import('../../settings/config.ts')
      const { ConfigError } = await import('../../platform/config-error.ts')
      const load = () => {
        try {
          return loadSettings({ env: io().env, file: options.config })
        } catch (error) {
          if (!(error instanceof ConfigError)) throw error
          const hint = error.hint || 'correct the setting, then run the command again'
          throw usageFailure(error.message, hint, error)
        }
      }
      const loaded = load()
      const target = await findTarget(options)
      const rule = await ruleInEffect(loaded.settings)
      const daemon = Object.entries(loaded.settings).map(([setting, value]) => ({
        setting,
        value: isAddress(value) ? formatAddress(value) : shownSetting(setting, value),
        ...(setting === 'egress.private' && rule !== null ? { in_effect: rule } : {}),
        origin: originOf(loaded.origins[setting] ?? 'default', loaded.file),
      }))
      const client = [
        {
          setting: 'client.profile',
          value: target.profile,
          origin: target.profile === null ? 'default' : 'profile',
        },
        { setting: 'client.url', value: target.url, origin: target.urlOrigin },
        { setting: 'client.data_url', value: target.dataUrl, origin: target.dataUrlOrigin },
        {
          setting: 'client.api_key',
          value: target.apiKey === null ? null : '[set]',
          origin: target.apiKeyOrigin,
        },
      ]
      const rows = [...daemon, ...client]
      const shown = options.origin === true ? rows : rows.map(({ origin: _, ...row }) => row)
      const columns = options.origin === true ? ['SETTING', 'VALUE', 'FROM'] : ['SETTING', 'VALUE']
      const view = {
        json: JSON.stringify({ settings: shown }),
        items: () => shown.map((one) => JSON.stringify(one)),
        names: () => rows.map((one) => one.setting),
        table: () => ({
          columns,
          rows: rows.map((one) =>
            [
              one.setting,
              'in_effect' in one ? `${text(one.value)} (in effect: ${one.in_effect})` : text(one.value),
              one.origin,
            ].slice(0, columns.length),
          ),
        }),
      }
      await print(view, options.output)
    },
  })
}

/**
 * The value that `egress.private = "auto"` resolves to. Null if the setting is not auto, or if there is no readable
 * data directory.
 */
async function ruleInEffect(settings: Settings): Promise<'allow' | 'deny' | null> {
  if (settings['egress.private'] !== 'auto') return null
  try {
    const { egressInEffect } = await import('../../maintenance/egress.ts')
    const found = egressInEffect(settings)
    return found && (found.isDenied ? 'deny' : 'allow')
  } catch {
    return null
  }
}

function originOf(origin: string, file: string | null): string {
  return origin === 'file' ? `file ${file}` : origin
}

function text(value: unknown): string {
  if (value === null) return '-'
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.join(', ')
  return String(value)
}

function isAddress(value: unknown): value is { host: string; port: number } {
  return value !== null && typeof value === 'object' && 'host' in value && 'port' in value
}
