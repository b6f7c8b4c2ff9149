/**
 * releases.json: what `pipectl upgrade --check` reads. Newest release first:
 *
 *   { "format": 1, "releases": [{
 *       "version": "1.0.0", "date": "2026-12-01",
 *       "notes": "release-notes.md",             beside this file; Markdown
 *       "before_upgrade": "…",                   Markdown, or null
 *       "minimum_upgrade_from": "1.0.0",         the oldest release whose data this one opens
 *       "data_formats": { "metadata": 34, "log": 2 } }, …] }
 *
 * The earlier releases are in vendor/release/releases.json. The list of a new release is committed there afterwards.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { beforeUpgrade } from './changelog.mjs'

/** `opens`: the metadata formats that this version opens, `{ oldest, newest }`. Returns the new list. */
export function releasesWith({ version, date, text }, { opens, logFormat }, earlier) {
  const before = earlier.releases.filter((one) => one.version !== version)
  const readable = before.filter(({ data_formats: formats }) => formats.metadata >= opens.oldest)
  const release = {
    version,
    date,
    notes: 'release-notes.md',
    before_upgrade: beforeUpgrade(text),
    minimum_upgrade_from: readable.at(-1)?.version ?? version,
    data_formats: { metadata: opens.newest, log: logFormat },
  }
  return { format: 1, releases: [release, ...before] }
}

export function earlierReleases() {
  return JSON.parse(readFileSync(path.join(import.meta.dirname, 'releases.json'), 'utf8'))
}
