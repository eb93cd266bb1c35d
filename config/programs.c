/* The texts of each program for --help and its man page. */
#include "config/options.h"

const char *const config_values_text = "Times carry their unit: 250ms, 10s, 2m, 1h. Sizes may: 65536, 64KiB, 8MiB, 1GiB.";
const char *const config_sources_text = "A flag may also be set as an environment variable: PAWL_ and its name in capitals, with _ for -, "
                                        "such as PAWL_URI_FILE for --uri-file; a "
                                        "list has commas, a switch is true or false. Or in the --config file, as `uri-file = FILE`. The "
                                        "flag overrides the variable, the variable overrides the file.";

/* clang-format off */
const struct program_text config_programs[CONFIG_PROGRAMS] = {
  [CONFIG_WORKER] = {
    .name = "pawl-worker",
    .brief = "drains a MongoDB message queue into one file per type",
    .usage = "--type TYPE [OPTION]...",
    .about = "Drains the MongoDB queue of each TYPE into one append-only file, exactly once and in order.\n"
             "Start as many as you like, on any machines: one at a time writes a type, the others wait.",
    .examples = "  pawl-worker --type t1 --dir /srv/pawl\n"
                "  pawl-worker --type t1,t2 --uri-file /etc/pawl/uri --lease 10s\n"
                "  pawl-worker --type 'orders.*' --except 'orders.test*' --dir /srv/pawl\n"
                "  PAWL_URI=mongodb://db1,db2/?replicaSet=rs0 pawl-worker --type t1 --exit-when-empty --timeout 1h",
    .exits = {{"0", "stopped as asked (SIGTERM, SIGINT), or with --exit-when-empty: nothing is left"},
              {"1", "it was told to stop twice, could not stop in 8 s, or could not start its threads; --health: the worker does not answer"},
              {"2", "wrong option, value, configuration or --dir; or the database cannot be used as it is, or a right is missing"},
              {"69", "--timeout is over"},
              {"74", "the storage of a type cannot be trusted: an operator must act"}},
    .files = {{"DIR/TYPE.bin, DIR/TYPE@EPOCH.bin", "the segments of a type"},
              {"/etc/pawl/worker.conf, /etc/pawl/TYPE.env, /etc/pawl/uri", "what the service pawl-worker@TYPE reads: options, variables, and "
               "the connection string"},
              {"/var/lib/pawl", "the DIR of that service"}},
  },
  [CONFIG_ENQUEUE] = {
    .name = "pawl-enqueue",
    .brief = "puts messages into the queue of pawl",
    .usage = "--type TYPE [OPTION]... [FILE]...",
    .about = "Puts messages into the queue, from FILEs or standard input (also `-`).\n"
             "Reports how many were acknowledged, which lines were bad, and which messages' fate is unknown.",
    .examples = "  pawl-enqueue --type t1 access.log\n"
                "  mongoexport --db old --collection m | pawl-enqueue --from ndjson --type t1\n"
                "  pawl-enqueue --from bson dump/old/m.bson\n"
                "  tail -F access.log | pawl-enqueue --type t1 --bundle auto",
    .exits = {{"0", "all was acknowledged"},
              {"1", "bad lines, messages whose fate is unknown, a file that cannot be read, or a signal"},
              {"2", "wrong option, value or configuration; or the database cannot be used as it is, or a right is missing"},
              {"69", "MongoDB could not be reached, or refuses the credentials; nothing was enqueued"}},
    .files = {{"$XDG_STATE_HOME/pawl/last-id, ~/.local/state/pawl/last-id",
               "the last _id that was given to this user, so that they rise from one call to the next; the second without XDG_STATE_HOME"}},
  },
  [CONFIG_STATUS] = {
    .name = "pawl-status",
    .brief = "shows which worker drains each type, and how much is queued",
    .usage = "[OPTION]... | --top | --check | --peek TYPE | --pause TYPE | --resume TYPE",
    .about = "Shows, for each type, what is queued, how old the oldest is, the holder, and where its file ends.\n"
             "QUEUED, SEQ and SETTLED count documents, MESSAGES the messages in them (a bundle holds many). It only reads, except with\n"
             "--pause and --resume, which keep the workers away from a type and let them go on.",
    .examples = "  pawl-status\n"
                "  pawl-status --type t1 --json\n"
                "  pawl-status --top\n"
                "  pawl-status --check --max-age 5m --max-documents 100000\n"
                "  pawl-status --peek t1 -n 3\n"
                "  pawl-status --pause t1 --reason 'moving the disk'\n"
                "  pawl-status --resume t1",
    .exits = {{"0", "all was shown; paused; resumed; --check: all is well"},
              {"1", "a ledger or lock cannot be read; the type is paused already, or is not paused; --check: a warning"},
              {"2", "wrong option, value or configuration; the database cannot be used as it is, or a right is missing; --top: no terminal; --check: a limit is exceeded, or it cannot be checked"},
              {"69", "MongoDB could not be reached, or refuses the credentials"}},
  },
  [CONFIG_SETUP] = {
    .name = "pawl-setup",
    .brief = "prepares MongoDB, adopts files, sets aside, carries types",
    .usage = "[OPTION]...",
    .about = "Does what is needed once: makes collections and indexes, and initiates a replica set on request.\n"
             "Run again, it changes nothing. When asked, it also adopts files, gives a type its own collection, carries a type to another\n"
             "database, and moves documents out of the queue that no worker can take.",
    .examples = "  pawl-setup --uri mongodb://db1\n"
                "  pawl-setup --replica-set rs0 --member 127.0.0.1:27017\n"
                "  pawl-setup --adopt t1 --dir /srv/pawl\n"
                "  pawl-setup --type t1 --own-collection\n"
                "  pawl-setup --list-refused\n"
                "  pawl-setup --set-aside t1,@untyped\n"
                "  pawl-setup --carry t1 --to-uri-file /etc/pawl/uri-b",
    .exits = {{"0", "all is there; adopted; listed; moved; switched; carried"},
              {"1", "--adopt, --set-aside, --put-back or --carry was declined, or a worker is at work; or some documents were not moved, and are named; --shared-collection: messages.TYPE is not empty, or not settled"},
              {"2", "wrong option, value or configuration; or the database cannot be used as it is, or a right is missing"},
              {"69", "MongoDB could not be reached within --timeout, or refuses the credentials"},
              {"74", "these files cannot be adopted, or the ledger of the type to set aside, to switch or to carry cannot be used; nothing was changed"}},
  },
  [CONFIG_DUMP] = {
    .name = "pawl-dump",
    .brief = "reads, verifies and follows the files of pawl",
    .usage = "[OPTION]... FILE... | --dir DIR [--type TYPE]",
    .about = "Reads, verifies and follows storage files; it needs no MongoDB and takes no lock. A FILE may be a pipe, or - for standard input.\n"
             "Data goes to standard output, all else to standard error.",
    .examples = "  pawl-dump /srv/pawl/t1.bin\n"
                "  pawl-dump --dir /srv/pawl --type t1 --from-seq 1000 -n 10 --with-meta\n"
                "  pawl-dump --dir /srv/pawl --verify",
    .exits = {{"0", "fine; an empty result too"},
              {"1", "input or output failed, or the ledger could not be read; --verify: there is nothing to verify"},
              {"2", "wrong option, value or configuration; or the database cannot be used as it is, or a right is missing"},
              {"3", "committed data is damaged or lost; --verify: files and ledger disagree; with --deep also: doubtful"},
              {"4", "a newer format"},
              {"5", "--strict, and something was unconfirmed. If several apply, the most severe: 3, then 1, 4, 5"},
              {"69", "the ledger could not be asked: MongoDB could not be reached, or refuses the credentials"}},
    .files = {{"DIR/TYPE.bin, DIR/TYPE@EPOCH.bin", "the segments of a type"}},
  },
  [CONFIG_LOCK] = {
    .name = "pawl-lock",
    .brief = "runs a command while it holds a lock in MongoDB",
    .usage = "[OPTION]... NAME... -- COMMAND... | --document DOCUMENT -- COMMAND... | --hold NAME... | --list | --show NAME | --break NAME --reason TEXT | --forget NAME | --prune",
    .about = "Runs COMMAND while it holds the lock NAME: flock(1) across machines. It takes several NAMEs all or none.\n"
             "It waits for the lock, renews it while COMMAND runs, releases it when COMMAND ends, and exits as COMMAND does.\n"
             "If the lock cannot be kept, COMMAND gets SIGTERM after two thirds of the lease and SIGKILL at its end.\n"
             "A frozen machine cannot send them. For that case COMMAND finds in PAWL_LOCK_EPOCH a number that rises with each\n"
             "holder: the server that COMMAND writes to should refuse a lower number than it has seen.\n"
             "The workers of a type of this name use the same lock, so it keeps them out.",
    .examples = "  pawl-lock nightly -- ./backup\n"
                "  pawl-lock --timeout 0s nightly -- ./backup || echo \"it runs already\"\n"
                "  pawl-lock --lease 10s deploy -- sh -c 'put --fence \"$PAWL_LOCK_EPOCH\" release.tar'\n"
                "  pawl-lock --slots 4 encoders -- ./encode\n"
                "  pawl-lock --document 'events/{\"state\": \"new\"}' --sort '{\"at\": 1}' -- ./work\n"
                "  pawl-lock --forget nightly",
    .exits = {{"N", "COMMAND ended with N; 128+N: signal N ended it; 126: it cannot be run; 127: it is not there"},
              {"1", "the lock was lost before COMMAND ended (or as --lost-exit says), or the lock document was not written by pawl; --forget: NAME is a type with files; --show, --break: no process holds it"},
              {"2", "wrong option, value or configuration; NAME has another number of slots; a pawl-lock that this one runs under holds NAME; the database cannot be used as it is, or a right is missing"},
              {"69", "--timeout was over, and the lock was not free (or as --conflict-exit says), or MongoDB gave no answer. Nothing was run. --hold: also a signal, or the end of standard input, before the lock was held. --forget waits only with --timeout"},
              {"74", "the ledger of NAME cannot be used. Nothing was run"}},
    .variables = {{"PAWL_LOCK_NAME, PAWL_LOCK_EPOCH", "set for COMMAND: the NAME, and the number that rises with each holder; of several NAMEs one after the other, with blanks between. Of a document its collection, and its token"},
                  {"PAWL_LOCK_DOCUMENT", "set for COMMAND with --document: the document as it was when it was locked, in Extended JSON, unless that has more than 100 KiB"},
                  {"PAWL_LOCK_SLOT", "set for COMMAND: which slot of each NAME, from 0 on. With --slots the number of PAWL_LOCK_EPOCH rises in each slot"},
                  {"PAWL_LOCK_HELD", "set for COMMAND: its NAMEs and those of each pawl-lock that it runs under. A pawl-lock that finds its own NAME there exits with 2 instead of waiting for itself"}},
  },
  [CONFIG_MONITOR] = {
    .name = "pawl-monitor",
    .brief = "shows every type on a page, and as metrics for Prometheus",
    .usage = "[OPTION]...",
    .about = "Serves a page and metrics of every type in the database, served or not: what waits and how old it is, who holds it and who\n"
             "waits for it, who held it before, and where its file ends. It only reads, and nothing can be changed through it.\n"
             "It has neither TLS nor passwords: bind it to localhost, or put a proxy in front.",
    .examples = "  pawl-monitor\n"
                "  pawl-monitor --uri-file /etc/pawl/uri --listen 0.0.0.0:9465 --host-name pawl.example.com",
    .exits = {{"0", "stopped as asked (SIGTERM, SIGINT)"},
              {"1", "it could not start its threads"},
              {"2", "wrong option, value or configuration, or it cannot listen at --listen. If the database gives no answer, or cannot be used, "
               "it says so on the page and in the metrics, and tries again"}},
    .files = {{"/etc/pawl/monitor.conf, /etc/pawl/uri", "what the service pawl-monitor reads: options, and the connection string"}},
  },
};
/* clang-format on */

const char *config_program_name(enum config_program program)
{
  return config_programs[program].name;
}
