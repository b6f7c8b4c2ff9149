/**
 * The unit and the settings of the Debian package, made of the ones for every system. What differs there:
 * the user is a real one, so that commands can be run as it (`runuser -u pipectl`); the settings are in
 * /etc/pipectl/pipectl.toml, which those commands read too, and so the places of data and sealing key are there: a variable of the
 * unit would win over the file, and a credential is nothing that a command has.
 */
export function packagedUnit(unit) {
  return replaceEach(unit, [
    ...inBothServices,
    ['DynamicUser=yes\n', 'User=pipectl\nGroup=pipectl\n'],
    ['Environment=PIPECTL_LOG_FORMAT=json\n', ''],
    [
      /^# The key that encrypts stored secrets.*\n#.*\nLoadCredential=.*\n/m,
      '# The key that encrypts stored secrets is secrets.key_file of pipectl.toml, which the package created.\n',
    ],
  ])
}

/** The unit that makes a backup, for the same user and settings. */
export function packagedBackupUnit(unit) {
  return replaceEach(unit, [
    ...inBothServices,
    [
      /^# The user of pipectl\.service: .*\nDynamicUser=yes\nUser=pipectl\n/m,
      'User=pipectl\nGroup=pipectl\n',
    ],
  ])
}

const inBothServices = [
  ['ExecStart=/usr/bin/env pipectl ', 'ExecStart=/usr/bin/pipectl '],
  ['Documentation=', 'Documentation=man:pipectl(1) '],
  ['Environment=PIPECTL_DATA_DIR=%S/pipectl\n', 'Environment=PIPECTL_CONFIG=/etc/pipectl/pipectl.toml\n'],
  [
    '# Settings as variables, or PIPECTL_CONFIG=/etc/pipectl/pipectl.toml for a file.\n',
    '# Settings as variables, which win over the file.\n',
  ],
]

export function packagedConfig(config) {
  return replaceEach(config, [
    [
      '\n\n',
      '\n# The daemon reads this file when it starts: systemctl restart pipectl. Another place for the data also needs\n' +
        '# ReadWritePaths= with it in the units (systemctl edit pipectl, and pipectl-backup.service if you enable it).\n\n',
    ],
    ['#data_dir = "./data"', 'data_dir = "/var/lib/pipectl"'],
    [
      /(?<=\n\[secrets\]\n(?:#.*\n)*?)# Not set by default\.\n#key_file = .*/,
      'key_file = "/etc/pipectl/sealing.key"',
    ],
  ])
}

/** Each must be there; its first place is replaced. */
function replaceEach(text, pairs) {
  let changed = text
  for (const [from, to] of pairs) {
    const before = changed
    changed = before.replace(from, () => to)
    if (changed === before) throw new Error(`what the Debian package replaces is not there: ${from}`)
  }
  return changed
}
