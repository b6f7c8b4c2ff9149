/** Compares the running program with the list of releases: what an upgrade would change. */
import { compareVersions, type DataFormats, type Release } from './releases.ts'

export interface UpgradePlan {
  /** The running program. */
  version: string
  /** The version to install now, or the running one when there is no newer release. */
  newest: string
  is_upgrade_available: boolean
  date: string | null
  /** The address of the release notes. */
  notes_url: string | null
  /** The releases between the two, oldest first, that need a step of the operator. Markdown. */
  before_upgrade: { version: string; text: string }[]
  data_formats: { running: DataFormats; newest: DataFormats }
  /** The first start converts the data, and older versions do not open it afterwards. */
  is_data_converted: boolean
  /** The newest release opens the data of the running version. */
  opens_data: boolean
  /** Null: the newest one opens the data, or no release does. Otherwise install this one first. */
  install_first: string | null
}

export interface RunningProgram {
  version: string
  formats: DataFormats
}

/** `list` in any order. Pre-releases count only if the running program is one. `url` is that of the list. */
export function planUpgrade(
  { version, formats }: RunningProgram,
  list: readonly Release[],
  url: URL,
): UpgradePlan {
  const isPreview = version.includes('-')
  const newer = list
    .filter((one) => compareVersions(one.version, version) > 0 && (isPreview || !one.version.includes('-')))
    .sort((one, other) => compareVersions(one.version, other.version))
  const newest = newer.at(-1)
  const newFormats = newest?.data_formats ?? formats
  const opens = (one: Release) => compareVersions(version, one.minimum_upgrade_from) >= 0
  const opensData = newest === undefined || opens(newest)
  return {
    version,
    newest: newest?.version ?? version,
    is_upgrade_available: newest !== undefined,
    date: newest?.date ?? null,
    notes_url: newest === undefined || newest.notes === null ? null : new URL(newest.notes, url).href,
    before_upgrade: newer.flatMap((one) =>
      one.before_upgrade === null ? [] : [{ version: one.version, text: one.before_upgrade }],
    ),
    data_formats: { running: formats, newest: newFormats },
    is_data_converted: newFormats.metadata > formats.metadata || newFormats.log > formats.log,
    opens_data: opensData,
    install_first: opensData ? null : (newer.findLast(opens)?.version ?? null),
  }
}
