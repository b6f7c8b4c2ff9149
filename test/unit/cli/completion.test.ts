/**
 * The scripts of `pipectl completion`, in real shells on a real terminal: each installed as its --help and the packages do, and
 * asked with the first TAB of the session. zsh runs a completion file at that TAB alone.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { binary, cleanEnv } from '../../support/daemon.ts'
import { programFile } from '../../support/programs.ts'
import { until } from '../../support/until.ts'

const home = makeHome()
const run = promisify(execFile)
const env = cleanEnv({
  ...homeEnv(home),
  PATH: `${path.join(home, 'bin')}:${process.env.PATH}`,
  TERM: 'screen',
  LC_ALL: 'C.UTF-8',
})
const tmux = (...args: string[]) =>
  run(programFile('tmux'), ['-S', path.join(home, 'tmux'), '-f', '/dev/null', ...args], { env })
t.teardown(async () => {
  await tmux('kill-server').catch(() => {})
  // The shells write down their histories as they end.
  await until('the home is removed', () => {
    removeHome(home)
    return true
  })
})

function write(name: string, text: string, mode = 0o644): string {
  const file = path.join(home, name)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, text, { mode })
  return file
}

write('bin/pipectl', `#!/bin/sh\nexec '${process.execPath}' '${binary}' "$@"\n`, 0o755)
const scriptOf = async (shell: string) => (await runCli(['completion', shell])).stdout
write('zfunc/_pipectl', await scriptOf('zsh'))
write('config/fish/completions/pipectl.fish', await scriptOf('fish'))
write('config/fish/config.fish', "function fish_prompt; echo 'ready> '; end\nset fish_greeting\n")
// Where it is, fish does not read all manual pages in the background.
mkdirSync(path.join(home, '.local/share/fish/generated_completions'), { recursive: true })
const bashrc = write('bashrc', "PS1='ready> '\nsource <(pipectl completion bash)\n")
const compinit = "PS1='ready> '\nautoload -Uz compinit && compinit -u\n"
write('zsh-file/.zshrc', `fpath=(${home}/zfunc $fpath)\n${compinit}`)
write('zsh-source/.zshrc', `${compinit}source <(pipectl completion zsh)\n`)

const shells = {
  'bash, sourced': `bash --noprofile --rcfile ${bashrc} -i`,
  'zsh, a file of its fpath': `env ZDOTDIR=${home}/zsh-file zsh -i`,
  'zsh, sourced': `env ZDOTDIR=${home}/zsh-source zsh -i`,
  'fish, a file of its completions': 'fish',
}

for (const [at, [name, command]] of Object.entries(shells).entries()) {
  t.test(`${name}: the first TAB completes a command, a later one a word of it`, async (t) => {
    const session = `shell-${at}`
    await tmux('new-session', '-d', '-s', session, '-x', '100', '-y', '10', command)
    const screen = async () => (await tmux('capture-pane', '-p', '-t', session)).stdout
    const shows = (text: string) =>
      until(`${name} shows ${text}`, async () => (await screen()).includes(text), {
        timeoutMs: 60_000,
      }).catch(async (error: Error) => {
        throw new Error(`${error.message}:\n${await screen()}`)
      })
    const type = (text: string) => tmux('send-keys', '-t', session, '-l', text)
    await shows('ready>')
    await type('pipectl pip')
    await shows('pipectl pip')
    await tmux('send-keys', '-t', session, 'Tab')
    await shows('pipectl pipes')
    await type('upd')
    await shows('pipectl pipes upd')
    await tmux('send-keys', '-t', session, 'Tab')
    await shows('pipectl pipes update')
    t.pass(await screen())
  })
}
