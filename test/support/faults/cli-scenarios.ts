/** Scenarios on a data directory through the program itself: init, backup, restore. About a second each. */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { binary, cleanEnv } from '../daemon.ts'
import { Checker } from './checker.ts'
import { diskBytes, type Ran, type Scenario } from './every-step.ts'
import { type FaultyDisk, type Plan, soundDisk } from './library.ts'
import type { Verdict } from './store-check.ts'
import { pipes, runProgram } from './store-run.ts'

export const cliScenarioNames = ['init', 'backup', 'restore'] as const
export type CliScenarioName = (typeof cliScenarioNames)[number]

interface Finished {
  code: number | string
  stderr: string
}

function runCli(args: readonly string[], env: Record<string, string>): Promise<Finished> {
  const child = spawn(process.execPath, [binary, ...args], {
    env: cleanEnv(env),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (text) => {
    stderr += text
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), 240_000)
  return new Promise((resolve) =>
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ code: signal ?? code ?? 'gone', stderr })
    }),
  )
}

/** Prepares its base in `work`. Call `close()`. */
export async function openCliScenario(name: CliScenarioName, work: string): Promise<Scenario> {
  const base = path.join(work, 'base')
  mkdirSync(base, { recursive: true })
  const sound = soundDisk(work, diskBytes)
  const checker = new Checker(sound)
  const at = (root: string) => ({ data: path.join(root, 'data'), file: path.join(root, 'backup.tar.gz') })
  const command = {
    init: ['init', '--json'],
    backup: ['backup', '--include-key'],
    restore: ['restore'],
  }[name]
  const argsAt = (root: string, words: readonly string[], file = at(root).file) => {
    const named = words[0] === 'init' || words[0] === 'workspaces' ? [] : [file]
    return [...words, ...named, '--data-dir', at(root).data]
  }
  const must = async (args: readonly string[]) => {
    const { code, stderr } = await runCli(args, sound)
    if (code !== 0) throw new Error(`${args[0]} ended ${code}: ${stderr}`)
  }

  let acknowledged: Awaited<ReturnType<typeof runProgram>>['acknowledged'] = []
  if (name !== 'init') {
    await must(argsAt(base, ['init', '--json']))
    const steps = [{ do: 'open' }, { do: 'append', count: 9, bytes: 5_000 }, { do: 'exit' }] as const
    acknowledged = (await runProgram({ root: at(base).data, steps, env: sound })).acknowledged
  }
  if (name === 'restore') {
    await must(argsAt(base, ['backup', '--include-key']))
    rmSync(at(base).data, { recursive: true })
  }
  const checkStore = (root: string) =>
    checker.check({ root, pipes, acknowledged, delivered: {}, checksAllKeys: true })
  const isThere = (directory: string) => existsSync(directory) && readdirSync(directory).length > 0

  const checks: Record<CliScenarioName, (root: string, ended: Finished) => Promise<Verdict>> = {
    /** A second init completes the first or finds it complete; a workspace can be made. */
    async init(root, ended) {
      const again = await runCli(argsAt(root, command), sound)
      const isSetUp = /already set up/.test(again.stderr)
      if (again.code !== 0 && !isSetUp) return `init again ends with ${again.code}: ${again.stderr}`
      if (ended.code === 0 && !isSetUp) return 'init succeeded and nothing is there'
      const created = await runCli(argsAt(root, ['workspaces', 'create', 'check', '--json']), sound)
      return created.code === 0 ? null : `workspaces create ends with ${created.code}: ${created.stderr}`
    },
    /** A file under the final name is a whole backup; the data directory is as good as before. */
    async backup(root, ended) {
      const { data, file } = at(root)
      if (ended.code === 0 && !existsSync(file)) return 'backup succeeded and there is no file'
      if (!existsSync(file)) {
        const again = await runCli(argsAt(root, command), sound)
        if (again.code !== 0) return `backup again ends with ${again.code}: ${again.stderr}`
      }
      const restored = path.join(root, 'restored')
      const { code, stderr } = await runCli(['restore', file, '--data-dir', restored], sound)
      if (code !== 0) return `its restore ends with ${code}: ${stderr}`
      return (await checkStore(restored)) ?? (await checkStore(data))
    },
    /** A directory under the final name is whole; where there is none, a second restore makes it. */
    async restore(root, ended) {
      const { data } = at(root)
      if (ended.code === 0 && !isThere(data)) return 'restore succeeded and there is no directory'
      if (!isThere(data)) {
        const again = await runCli(argsAt(root, command), sound)
        if (again.code !== 0) return `restore again ends with ${again.code}: ${again.stderr}`
      }
      return await checkStore(data)
    },
  }

  return {
    name,
    base,
    async run(root: string, disk: FaultyDisk, plan: Plan | null): Promise<Ran> {
      disk.plan(plan)
      const ended = await runCli(argsAt(root, command), disk.env)
      return {
        end: ended.code === 0 ? '0' : `${ended.code} (${ended.stderr.trim().slice(0, 200)})`,
        // A command may fail on a full disk.
        gaveUp: null,
        check: () => checks[name](root, ended),
      }
    },
    close: () => checker.close(),
  }
}
