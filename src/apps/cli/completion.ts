/**
 * `pipectl completion SHELL`: prints a script that calls the program (`pipectl __complete …`) for candidates. So it
 * always matches the installed version and knows the names of pipes and destinations.
 */
import type { Command } from 'commander'
import { usageFailure } from '../client/failure.ts'
import { define } from './define.ts'
import { io } from './io.ts'

/**
 * At the first TAB, zsh runs the file from its fpath as the function of that name. The last line of the script
 * answers it.
 */
const scripts: Record<string, string> = {
  bash: `_pipectl() {
  local IFS=$'\\n'
  COMPREPLY=($(pipectl __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ "\${COMPREPLY[0]}" == :files ]]; then COMPREPLY=(); compopt -o default; fi
}
complete -F _pipectl pipectl
`,
  zsh: `#compdef pipectl
_pipectl() {
  local -a candidates
  candidates=("\${(@f)$(pipectl __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ "\${candidates[1]}" == :files ]]; then _files
  elif [[ -n "\${candidates[1]}" ]]; then compadd -- "\${candidates[@]}"; fi
}
if [[ "\${funcstack[1]}" == _pipectl ]]; then _pipectl "$@"; else compdef _pipectl pipectl; fi
`,
  fish: `function __pipectl_candidates
  set -l found (pipectl __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
  if test "$found" = ':files'
    __fish_complete_path (commandline -ct)
  else
    printf '%s\\n' $found
  end
end
complete -c pipectl -f -a '(__pipectl_candidates)'
`,
}

export function addCompletionCommands(program: Command): void {
  define(program, {
    usage: 'completion <shell>',
    summary: 'print a completion script for bash, zsh or fish',
    examples: [
      'source <(pipectl completion bash)',
      'pipectl completion zsh > ~/.zfunc/_pipectl',
      'pipectl completion fish > ~/.config/fish/completions/pipectl.fish',
    ],
    action: async ([shell]) => {
      const script = scripts[shell!]
      if (script === undefined) {
        throw usageFailure(`there is no completion for ${JSON.stringify(shell)}`, 'use bash, zsh or fish')
      }
      io().stdout.write(script)
    },
  })
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .allowUnknownOption()
    .action(async (words: string[]) => {
      const { completions } = await import('./complete-words.ts')
      const found = await completions(program, words, io().env)
      io().stdout.write(found.map((one) => `${one}\n`).join(''))
    })
}
