# Arguments: the directory, where the C source is, a local directory for the program.
set -eu
cd "$1"
cp "$2/sum.c" sum.c
cat >main.c <<'END'
#include <stdio.h>
#include "sum.h"
int main(void) { printf("sum %d\n", sum(40, 2)); return 0; }
END
printf '#pragma once\nint sum(int, int);\n' >sum.h
cc -c -O2 -Wall sum.c main.c; ar rcs libsum.a sum.o; ar t libsum.a; nm libsum.a | grep -c ' T '
cc -o program main.o -L. -lsum; cc -shared -fPIC -g -o libsum.so sum.c; cc -S -o - sum.c | grep -c sum
rm -f "$3/program"; cp program "$3/program"; "$3/program"; strip -o stripped program; objdump -d stripped | grep -c main || true
cc -flto -O2 -o whole main.c sum.c; cp whole "$3/whole"; "$3/whole"
