#include <cstdio>
#include <chrono>
static long visits=0, moves=0, sweeps=0;
#include "sweep.cpp"
#include <sluice/timeline.hpp>
using namespace sluice;
int main(int argc,char**argv){ int S=argc>1?atoi(argv[1]):16,M=argc>2?atoi(argv[2]):256;
 std::uint64_t state=1; auto between=[&](long a,long b){state=state*6364136223846793005ULL+1442695040888963407ULL; return a+(long)((state>>33)%(unsigned long)(b-a));};
 Costs c; for(int s=0;s<S;++s){c.forward.push_back(between(5,15)*Time::from_units(1));c.backward.push_back(between(10,30)*Time::from_units(1)); if(s)c.link.push_back(between(1,4)*Time::from_units(1));}
 for(int m=0;m<M;++m)c.sizes.push_back(between(1,5));
 c=complete(c,S); auto cr=law::credits(S,S-1);
 int n=argc>3?atoi(argv[3]):200; timespec a,b; clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&a); double mk=0;
 for(int i=0;i<n;++i) mk=detail::law_sweep(M,cr,c,Detail::metrics).makespan.units();
 clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&b); double ns=((b.tv_sec-a.tv_sec)*1e9+(b.tv_nsec-a.tv_nsec))/n/(2.0*S*M);
 printf("makespan %g, %.2f ns/action, visits/action %.3f\n",mk,ns,(double)visits/n/(2.0*S*M)); }
